import Foundation
import OwnThread
import TestSupport
import Testing

@testable import wordcount

@Suite(.ownThread) struct ReportTests {
    private func expectAsWC(
        _ names: [String], in folder: TemporaryFolder, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let paths = names.map { folder.at($0) }
        let ours = try output(of: report(at: paths.reversed()))
        let theirs = try wc(sorted(paths))
        #expect(text(ours.output) == text(theirs.output), sourceLocation: sourceLocation)
        let messages = text(ours.errors).replacingOccurrences(of: "wordcount: ", with: "wc: ")
        #expect(messages == text(theirs.errors), sourceLocation: sourceLocation)
    }

    @Test(arguments: [0, 1, 9, 10, 11, 99, 100, 101, 999_999, 1_000_000, 12_345_678])
    func columnsAreAsWideAsTheSizesNeed(size: Int) throws {
        let folder = TemporaryFolder()
        try folder.makeFile("file")
        try systemCall { truncate(folder.at("file").cString, size) }
        try folder.makeFile("x")
        try folder.makeFile("y", "y")
        try expectAsWC(["file"], in: folder)
        try expectAsWC(["file", "x"], in: folder)
        try expectAsWC(["file", "x", "y"], in: folder)
        try expectAsWC(["file", "missing"], in: folder)
    }

    @Test func totalsAndErrors() throws {
        let folder = TemporaryFolder()
        try folder.makeFile("good", "hello world\n")
        try folder.makeFile("it's good", "hello\n")
        try expectAsWC(["good"], in: folder)
        try expectAsWC(["good", "missing"], in: folder)
        try expectAsWC(["missing"], in: folder)
        try expectAsWC(["missing", "a:b", "it's gone", "a\nb"], in: folder)
        try expectAsWC(["good", "good"], in: folder)
        try expectAsWC(["good", "it's good", "missing"], in: folder)
        try expectAsWC([], in: folder)
    }

    @Test func namesAreSortedByTheirBytes() throws {
        let folder = TemporaryFolder()
        let names = ["a", "A", "a.b", "a/b", "a b", "\u{e9}", "e\u{301}", "Z", "~", "a\u{1}", "\u{1F600}", "\u{FFFD}"]
        try folder.makeDirectory("a")
        for name in names where name != "a" { try folder.makeFile(name, name) }
        let list = try run("find \"$1\" -type f -print0 | sort -z", folder.path)
        let theirs = try wc(list.output.split(separator: 0).map(Array.init))
        #expect(text(try output(of: report(at: [[UInt8](folder.path)])).output) == text(theirs.output))
    }

    @Test func errorsOfTheWalkAndOfTheCounting() throws {
        var report = Report(on: FileTree(at: [[UInt8]("/dev/null")]))
        #expect(report.hasErrors)
        report.add(FileError(path: [UInt8]("/a"), errno: EIO))
        #expect(
            text(try output(of: report).errors) == """
                wordcount: /a: Input/output error
                wordcount: /dev/null: Not a regular file

                """)
        #expect(text(try output(of: report).output) == "0 0 0 total\n")
    }

    private func bigReport() -> Report {
        var report = Report(on: FileTree(at: []))
        for index in 0..<20_000 {
            report.add(Counts(lines: 1, words: 2, bytes: 3), ofFile: [UInt8]("file number \(index)"))
        }
        return report
    }

    @Test func fullDevice() throws {
        let device = try FileDescriptor(opening: [UInt8]("/dev/full"), O_WRONLY)
        let descriptor = device.rawValue
        #expect(throws: IOError.system(errno: ENOSPC)) { try bigReport().write(to: descriptor) }
    }

    @Test func badDescriptor() {
        #expect(throws: IOError.system(errno: EBADF)) { try bigReport().write(to: -1) }
    }

    @Test func closedPipe() throws {
        signal(SIGPIPE, SIG_IGN)
        let pipe = Pipe()
        try pipe.fileHandleForReading.close()
        let descriptor = pipe.fileHandleForWriting.fileDescriptor
        #expect(throws: IOError.system(errno: EPIPE)) { try bigReport().write(to: descriptor) }
    }

    /// Signals interrupt the writing to a pipe whose reader is slow, before and after a part was written.
    @Test func interruptedAndShortWrites() async throws {
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in }
        sigaction(SIGUSR1, &action, nil)

        let report = bigReport()
        let expected = try output(of: report).output
        let pipe = Pipe()
        let writing = pipe.fileHandleForWriting
        let (threads, announcement) = AsyncStream<UInt>.makeStream()
        let isRead = DispatchSemaphore(value: 0)
        let writer = Thread {
            // The threads of Swift's own pool block all signals, and their children inherit that.
            var signals = sigset_t()
            sigemptyset(&signals)
            sigaddset(&signals, SIGUSR1)
            pthread_sigmask(SIG_UNBLOCK, &signals, nil)
            announcement.yield(UInt(pthread_self()))
            try? report.write(to: writing.fileDescriptor)
            try? writing.close()
            // Stays until the signals are over, so that none goes astray.
            _ = isRead.wait(timeout: .now() + 60)
        }
        writer.start()
        var iterator = threads.makeAsyncIterator()
        let thread = try #require(await iterator.next())

        var received: [UInt8] = []
        while true {
            // Some while the thread waits in its call, for which there is no event.
            for _ in 0..<3 {
                pthread_kill(pthread_t(thread), SIGUSR1)
                usleep(500)
            }
            let piece = try readSome(of: pipe.fileHandleForReading)
            if piece.isEmpty { break }
            received += piece
        }
        isRead.signal()
        // Not in the macro, which would look for the differences for ages.
        let isAllThere = received == expected
        #expect(isAllThere)
    }

    private func readSome(of file: FileHandle) throws -> [UInt8] {
        let descriptor = file.fileDescriptor
        var bytes = [UInt8](repeating: 0, count: 5000)
        let length = try systemCall { read(descriptor, &bytes, bytes.count) }
        return Array(bytes[..<length])
    }
}
