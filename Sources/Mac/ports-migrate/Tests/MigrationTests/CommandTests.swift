import Foundation
import Testing

/// The command, as people run it.
struct CommandTests {
    private let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("ports-migrate-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    private struct Run {
        let status: Int32
        let output, errors: String
    }

    /// Runs the command in the folder, which goes in the end.
    private func run(_ arguments: String...) throws -> Run {
        let (process, output, errors) = (Process(), Pipe(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
            .deletingLastPathComponent().appendingPathComponent("ports-migrate")
        process.arguments = arguments
        process.currentDirectoryURL = folder
        (process.standardOutput, process.standardError) = (output, errors)
        try process.run()
        // Less than a pipe holds comes on standard error.
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let failures = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return Run(status: process.terminationStatus, output: text, errors: failures)
    }

    private func write(_ text: String, _ name: String) throws {
        let url = folder.appendingPathComponent(name)
        try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: url)
    }

    private func text(_ name: String) throws -> String {
        try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)
    }

    private func remove() { try? FileManager.default.removeItem(at: folder) }

    private static let before = "import Foundation\n\nlet name = service as CFString\nlet window: NSWindow? = nil\n"
    private static let after =
        "import Foundation\nimport FoundationPorts\n\nlet name = service.cfString\nlet window: NSWindow? = nil\n"

    @Test func `files change where they are, once`() throws {
        defer { remove() }
        try write(Self.before, "one.swift")
        let path = folder.appendingPathComponent("one.swift").path
        try FileManager.default.setAttributes([.posixPermissions: 0o751], ofItemAtPath: path)
        let first = try run("one.swift")
        #expect(first.status == 0)
        #expect(first.output.hasPrefix("one.swift:5:13: NSWindow is not there on Linux: "))
        #expect(first.output.split(separator: "\n").count == 1)
        #expect(
            first.errors
                == "1 file changed, 1 place left\nThe target needs these products of swift-ports: FoundationPorts.\n")
        #expect(try text("one.swift") == Self.after)
        #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o751)
        let second = try run("one.swift")
        #expect(second.output == first.output)
        #expect(second.errors.hasPrefix("0 files changed, 1 place left\n"))
        #expect(try text("one.swift") == Self.after)
    }

    @Test(arguments: [before, before.replacing("\n", with: "\r\n"), String(before.dropLast()), "f(a as CFData)"])
    func `a dry run prints a patch that does the same`(_ source: String) throws {
        defer { remove() }
        let long = (1...20).map { "let x\($0) = \($0)\n" }.joined() + source
        for (name, text) in [("short.swift", source), ("long.swift", long)] {
            try write(text, name)
            try write(text, "patched/\(name)")
        }
        let dry = try run("-n", "short.swift", "long.swift")
        #expect(dry.status == 0)
        #expect(dry.errors.hasPrefix("2 files to change, "))
        #expect(try text("short.swift") == source)
        let patch = dry.output.split(separator: "\n", omittingEmptySubsequences: false)
            .filter { !$0.contains(/^\w+\.swift:\d/) }.joined(separator: "\n")
        try write(patch, "patched/changes.patch")
        let apply = Process()
        apply.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        apply.arguments = ["git", "apply", "-p0", "changes.patch"]
        apply.currentDirectoryURL = folder.appendingPathComponent("patched")
        try apply.run()
        apply.waitUntilExit()
        #expect(apply.terminationStatus == 0)
        #expect(try run("short.swift", "long.swift").status == 0)
        #expect(try text("patched/short.swift") == text("short.swift"))
        #expect(try text("patched/long.swift") == text("long.swift"))
    }

    @Test func `folders are searched, but not what is hidden`() throws {
        defer { remove() }
        for name in ["a/one.swift", "a/b/two.swift", "a/.build/three.swift", "a/notes.txt"] {
            try write(Self.before, name)
        }
        let run = try run("a/")
        #expect(run.status == 0)
        #expect(run.output.split(separator: "\n").map { $0.prefix { $0 != ":" } } == ["a/b/two.swift", "a/one.swift"])
        for name in ["a/one.swift", "a/b/two.swift"] { #expect(try text(name) == Self.after) }
        for name in ["a/.build/three.swift", "a/notes.txt"] { #expect(try text(name) == Self.before) }
    }

    @Test func `a type that another file declares is known`() throws {
        defer { remove() }
        try write(Self.before, "one.swift")
        try write("class NSWindow {}\n", "two.swift")
        #expect(try run("one.swift", "two.swift").output == "")
    }

    @Test func `a link stays one`() throws {
        defer { remove() }
        try write(Self.before, "file.swift")
        let link = folder.appendingPathComponent("link.swift").path
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "file.swift")
        #expect(try run("link.swift").status == 0)
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "file.swift")
        #expect(try text("file.swift") == Self.after)
    }

    @Test func `what fails is told, and all else is done`() throws {
        defer { remove() }
        try write(Self.before, "good.swift")
        try write("func f( {\nlet name = service as CFString\n", "bad.swift")
        try Data([0x6c, 0x65, 0x74, 0xff, 0xfe]).write(to: folder.appendingPathComponent("latin.swift"))
        try write("text", "empty/notes.txt")
        let run = try run("none.swift", "bad.swift", "latin.swift", "empty", "/proc/self/mem", "good.swift")
        #expect(run.status == 1)
        let errors = run.errors.split(separator: "\n")
        #expect(errors.contains("none.swift: error: there is no such file or folder"))
        #expect(errors.contains { $0.hasPrefix("bad.swift:1:") })
        #expect(errors.contains { $0.hasPrefix("bad.swift: error: the file is left as it is") })
        #expect(
            errors.contains("latin.swift: error: the file is not text in UTF-8; convert it, for example with iconv"))
        #expect(errors.contains("empty: error: the folder has no Swift files"))
        #expect(errors.contains { $0.hasPrefix("/proc/self/mem: error: the file cannot be read: ") })
        #expect(try text("good.swift") == Self.after)
        #expect(try text("bad.swift").contains("as CFString"))
    }

    @Test func `the help says what it does`() throws {
        defer { remove() }
        let help = try run("--help")
        #expect(help.status == 0)
        for word in ["--dry-run", "--also-macos", "FILE:LINE:COLUMN", "git diff"] {
            #expect(help.output.contains(word))
        }
        #expect(try run().status == 64)
    }
}
