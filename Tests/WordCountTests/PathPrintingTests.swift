import Foundation
import TestSupport
import Testing

@testable import wordcount

@Suite struct PathPrintingTests {
    /// Names which differ in what a shell, or `wc`, might take offence at.
    private func hostileNames(seed: UInt64, count: Int, upTo length: Int) -> [[UInt8]] {
        var random = SplitMix64(seed: seed)
        let special = [UInt8]("'\n'\n \t\\\"$`~#!-?*[]{}=:;&|<>()^%@,.\u{7}\u{8}\u{b}\u{c}\r\u{1b}\u{7f}0719abn")
        let names = (0..<count).map { _ -> [UInt8] in
            (0..<Int.random(in: 1...length, using: &random)).map { _ in
                let byte = UInt8.random(in: 1...255, using: &random)
                let isPlain = Int.random(in: 0..<8, using: &random) == 0 && byte != UInt8(ascii: "/")
                return isPlain ? byte : special[Int.random(in: 0..<special.count, using: &random)]
            }
        }
        return Array(Set(names).subtracting([[UInt8]("."), [UInt8](".."), [UInt8]("-")]))
    }

    /// Compares the lines printed for files which exist under such names.
    private func expectReportedAsByWC(_ names: [[UInt8]]) throws {
        let folder = TemporaryFolder()
        for name in names { try folder.makeFile(name) }
        let ours = sorted(names).map { [UInt8]("0 0 0 ") + PathPrinting.inReport($0) + [0x0a] }
        let theirs = try wc(sorted(names), in: folder.path)
        #expect(text(ours.joined() + [UInt8]("0 0 0 total\n")) == text(theirs.output))
        #expect(theirs.errors.isEmpty)
    }

    /// Compares the messages about files which do not exist.
    private func expectMessagesAsByWC(_ names: [[UInt8]], errno: Int32 = ENOENT) throws {
        let folder = TemporaryFolder()
        let ours = names.map { "wc: \(FileError(path: $0, errno: errno))\n" }
        let theirs = try wc(names, in: folder.path)
        #expect(ours.joined() == text(theirs.errors))
    }

    @Test(arguments: 1...4)
    func hostileNamesWithNewlinesInReports(seed: UInt64) throws {
        let names = hostileNames(seed: seed, count: 300, upTo: 12)
        try expectReportedAsByWC(names.map { $0.contains(0x0a) ? $0 : $0 + [0x0a] })
        try expectReportedAsByWC(names.map { $0.contains(0x0a) ? $0 : [0x0a] + $0 + $0 })
    }

    @Test(arguments: 1...4)
    func hostileNamesWithoutNewlinesInReports(seed: UInt64) throws {
        let names = hostileNames(seed: seed, count: 300, upTo: 12).map { $0.filter { $0 != 0x0a } }
        try expectReportedAsByWC(Array(Set(names).subtracting([[], [UInt8]("."), [UInt8](".."), [UInt8]("-")])))
    }

    /// Beyond 256 bytes, where the quoted name no longer fits into the buffer that `wc` tries first.
    @Test func longNamesInReports() throws {
        try expectReportedAsByWC(hostileNames(seed: 5, count: 100, upTo: 250).map { $0 + [0x0a] })
    }

    @Test(arguments: 1...4)
    func hostileNamesInMessages(seed: UInt64) throws {
        try expectMessagesAsByWC(hostileNames(seed: seed, count: 2000, upTo: 6))
        try expectMessagesAsByWC(hostileNames(seed: seed, count: 300, upTo: 250))
    }

    @Test func everyByteInEveryPlaceInMessages() throws {
        let contexts: [(String, String)] = [
            ("", ""), ("x", ""), ("", "x"), ("x", "x"), ("'", ""), ("", "'"), ("x'", ""), ("", "'x"), ("x'", "x"),
            ("\n", ""), ("", "\n"), ("\n", "\n"), ("'\n", ""), ("", "\n'"), ("'", "\n"), ("\n'", ""), ("\t", "1"),
        ]
        var names: [[UInt8]] = []
        for byte in 1...UInt8.max where byte != UInt8(ascii: "/") {
            for (before, after) in contexts { names.append([UInt8](before) + [byte] + [UInt8](after)) }
        }
        try expectMessagesAsByWC(names.filter { $0 != [UInt8](".") && $0 != [UInt8]("-") })
    }

    @Test func tooLongNamesInMessages() throws {
        let names = [String(repeating: "a b", count: 100), String(repeating: "'\n", count: 300)].map { [UInt8]($0) }
        try expectMessagesAsByWC(names, errno: ENAMETOOLONG)
    }

    /// What the comparisons with `wc` come down to, for the reader.
    @Test func examples() {
        #expect(text(PathPrinting.inReport([UInt8]("a b'c"))) == "a b'c")
        #expect(text(PathPrinting.inReport([0x61, 0xff])) == "a\u{ff}")
        #expect(text(PathPrinting.inReport([UInt8]("a\nb"))) == #"'a'$'\n''b'"#)
        #expect(text(PathPrinting.inReport([UInt8]("\n'\\"))) == #"''$'\n'\''\'"#)
        #expect(PathPrinting.inMessages([UInt8]("plain")) == "plain")
        #expect(PathPrinting.inMessages([]) == "''")
        #expect(PathPrinting.inMessages([UInt8]("a b")) == "'a b'")
        #expect(PathPrinting.inMessages([UInt8]("it's")) == "\"it's\"")
        #expect(PathPrinting.inMessages([0x61, 0xff]) == #"'a'$'\377'"#)
    }
}
