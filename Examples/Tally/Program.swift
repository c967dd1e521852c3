import Foundation

/// This program, run once more, and what it prints.
final class Program {
    private let process = Process()
    private let output = Pipe()
    private var unread: [UInt8] = []

    struct Silence: Error, CustomStringConvertible { let description: String }

    init(_ arguments: [String]) throws {
        process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        process.arguments = arguments
        process.standardOutput = output
        try process.run()
        try output.fileHandleForWriting.close()
    }

    /// Valid after the end.
    var status: Int32 { process.terminationStatus }

    func waitForEnd() { process.waitUntilExit() }

    func end(with signal: Int32) {
        if process.isRunning { kill(process.processIdentifier, signal) }
        waitForEnd()
    }

    /// Reads up to a line.
    func wait(for line: String) throws { while try nextLine() != line {} }

    /// The next line that the program prints, within ten seconds.
    func nextLine() throws -> String {
        while true {
            if let end = unread.firstIndex(of: UInt8(ascii: "\n")) {
                defer { unread.removeSubrange(...end) }
                return String(decoding: unread[..<end], as: UTF8.self)
            }
            var source = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
            let more = poll(&source, 1, 10_000) == 1 ? output.fileHandleForReading.availableData : Data()
            if more.isEmpty {
                throw Silence(
                    description: "“tally \((process.arguments ?? []).joined(separator: " "))” prints nothing more")
            }
            unread += more
        }
    }
}
