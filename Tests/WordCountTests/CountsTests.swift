import Foundation
import OwnThread
import TestSupport
import Testing

@testable import wordcount

@Suite(.ownThread) struct CountsTests {
    /// Compares the whole report, sums and all, with that of `wc`.
    private func expectAsWC(
        _ paths: [[UInt8]], chunkSize: Int = 256 * 1024, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let ours = try output(of: report(at: paths, chunkSize: chunkSize))
        let theirs = try wc(sorted(paths))
        #expect(text(ours.output) == text(theirs.output), sourceLocation: sourceLocation)
        #expect(ours.errors.isEmpty, sourceLocation: sourceLocation)
        #expect(theirs.errors.isEmpty, sourceLocation: sourceLocation)
    }

    /// Bytes of which many are white space, or neither that nor visible.
    private func tangle(_ size: Int, _ random: inout SplitMix64) -> [UInt8] {
        let alphabet = [UInt8](" \t\n\u{b}\u{c}\r~!az\u{7f}") + [0, 0x1f, 0x80, 0xa0, 0x85, 0xff]
        return (0..<size).map { _ in alphabet[Int.random(in: 0..<alphabet.count, using: &random)] }
    }

    @Test(arguments: [1, 2, 3, 64, 4096, 256 * 1024])
    func randomFilesAroundChunkBorders(chunkSize: Int) throws {
        let folder = TemporaryFolder()
        var random = SplitMix64(seed: UInt64(chunkSize))
        let noise = (0..<5000).map { _ in UInt8.random(in: 0...255, using: &random) }
        let tangle = tangle(5000, &random)
        var paths: [[UInt8]] = []
        for multiple in 0...2 {
            for size in (multiple * chunkSize - 2)...(multiple * chunkSize + 2) where size >= 0 {
                for (name, bytes) in [("noise", noise), ("tangle", tangle)] {
                    var contents: [UInt8] = []
                    while contents.count < size { contents += bytes }
                    contents.removeLast(contents.count - size)
                    paths.append(try folder.makeFile([UInt8]("\(name)-\(multiple)-\(size)"), contents))
                }
            }
        }
        try expectAsWC(paths, chunkSize: chunkSize)
    }

    @Test func randomFilesOfManySizes() throws {
        let folder = TemporaryFolder()
        var random = SplitMix64(seed: 1)
        let paths = try (0..<300).map { index in
            let size = Int.random(in: 0...(1 << (index % 16)), using: &random)
            return try folder.makeFile([UInt8]("\(index)"), tangle(size, &random))
        }
        try expectAsWC(paths)
        try expectAsWC(paths, chunkSize: 5)
    }

    @Test func smallTexts() throws {
        let folder = TemporaryFolder()
        let texts = [
            "", "\n", "a", "a\n", " ", " a", "a b\nc", "\n\n\n", "no final newline", "caf\u{e9} \u{a0} \u{2003}x\n",
        ]
        let paths = try texts.enumerated().map { index, text in try folder.makeFile("\(index)", text) }
        try expectAsWC(paths)
        for path in paths { try expectAsWC([path]) }
    }

    @Test func everyByteAloneAndWithinAWord() throws {
        let folder = TemporaryFolder()
        var paths: [[UInt8]] = []
        for byte in UInt8.min...UInt8.max {
            paths.append(try folder.makeFile([UInt8]("alone-\(byte)"), [byte]))
            paths.append(try folder.makeFile([UInt8]("within-\(byte)"), [0x78, byte, 0x78] as [UInt8]))
        }
        paths.append(try folder.makeFile([UInt8]("all"), Array(UInt8.min...UInt8.max)))
        try expectAsWC(paths)
    }

    @Test func everyPairOfBytes() throws {
        let folder = TemporaryFolder()
        let paths = try (UInt8.min...UInt8.max).map { first in
            let pairs = (UInt8.min...UInt8.max).flatMap { second -> [UInt8] in
                [first, second, 0x0a, first, second, 0x78, 0x0a]
            }
            return try folder.makeFile([UInt8]("\(first)"), pairs)
        }
        try expectAsWC(paths)
        try expectAsWC(paths, chunkSize: 1)
    }

    @Test func piecesAddUpToTheWhole() {
        var random = SplitMix64(seed: 2)
        for _ in 0..<200 {
            let bytes = tangle(100, &random)
            let border = Int.random(in: 0...100, using: &random)
            var whole = ByteCounter()
            var pieces = ByteCounter()
            bytes.withUnsafeBytes { bytes in
                whole.consume(bytes)
                pieces.consume(UnsafeRawBufferPointer(rebasing: bytes[..<border]))
                pieces.consume(UnsafeRawBufferPointer(start: nil, count: 0))
                pieces.consume(UnsafeRawBufferPointer(rebasing: bytes[border...]))
            }
            #expect(whole.counts == pieces.counts)
        }
    }

    @Test func addition() {
        var sum = Counts(lines: 1, words: 2, bytes: 3)
        sum += Counts(lines: 10, words: 20, bytes: 30)
        #expect(sum == Counts(lines: 11, words: 22, bytes: 33))
        #expect(sum + Counts() == sum)
    }

    /// Their size is said to be 0.
    @Test func filesOfTheKernel() throws {
        let counts = try Counts.ofFile(atPath: [UInt8]("/proc/version"))
        #expect(counts.lines == 1)
        #expect(counts.words > 3)
        #expect(counts.bytes > 10)
    }

    @Test func nobodyWaitsForFIFOs() throws {
        let folder = TemporaryFolder()
        try folder.makeFIFO("fifo")
        let fifo = folder.at("fifo")
        let isOver = DispatchSemaphore(value: 0)
        let frees = Helper { () -> Bool in
            // Frees a test which does wait.
            guard isOver.wait(timeout: .now() + 20) == .timedOut else { return false }
            close(open(fifo.cString, O_WRONLY | O_NONBLOCK))
            return true
        }
        #expect(throws: FileError(path: fifo, reason: .notRegularFile)) { try Counts.ofFile(atPath: fifo) }
        isOver.signal()
        #expect(!frees.join())
    }

    @Test func whatIsNoRegularFileIsRefused() throws {
        let folder = TemporaryFolder()
        try folder.makeFile("file")
        try folder.makeLink("link", to: "file")
        try folder.makeLink("loop", to: "loop")
        let failures: [([UInt8], IOError)] = [
            ([UInt8]("/dev/null"), .notRegularFile),
            ([UInt8](folder.path), .system(errno: EISDIR)),
            (folder.at("link"), .system(errno: ELOOP)),
            (folder.at("loop/x"), .system(errno: ELOOP)),
            (folder.at("missing"), .system(errno: ENOENT)),
            (folder.at("file/x"), .system(errno: ENOTDIR)),
            ([], .system(errno: ENOENT)),
            ([UInt8]("/proc/self/mem"), .system(errno: EIO)),
        ]
        for (path, reason) in failures {
            #expect(throws: FileError(path: path, reason: reason)) { try Counts.ofFile(atPath: path) }
        }
    }
}
