import Foundation
import Glibc
import TestSupport

@testable import Ports

/// A process with a port that harm is done to: it can be asked what it has seen of it.
final class Target: Sendable {
    let child: Child
    let right: MachPort.SendRight
    private let mine: MachPort
    private let sandbox: Sandbox
    let logFile: String

    /// - Parameters:
    ///   - setUp: Shell commands before it starts.
    ///   - program: What runs in the helper's place.
    ///   - log: Where it writes its standard error to; a file unless given.
    init(_ sandbox: Sandbox, setUp: String = ":", program: String = "$0", log: String? = nil) throws {
        self.sandbox = sandbox
        logFile = log ?? sandbox.path + ".log"
        let desk = try Desk(sandbox)
        child = Child(
            "target", in: sandbox,
            wrapper: ["/bin/sh", "-c", "\(setUp); exec \"\(program)\" \"$@\" 2>\(logFile)"])
        right = try desk.report()
        mine = try MachPort(nameServer: sandbox.names)
        desk.port.invalidate()
        // What it needs to answer, it has from now on.
        _ = try ask(1)
    }

    deinit { unlink(logFile) }

    struct Seen {
        let handled: Int
        let malformed: Int
        let heap: Int
        let descriptors: Int
    }

    private func ask(_ id: UInt32) throws -> [UInt8] {
        try right.send(MachPort.Message(id: id, replyPort: mine.sendRight), before: .patience)
        return try mine.receive(before: .patience).bytes ?? []
    }

    func seen() throws -> Seen {
        let bytes = try ask(1)
        return bytes.withUnsafeBytes { bytes in
            let numbers = (0..<4).map { Int(bytes.little(at: 8 * $0) as UInt64) }
            return Seen(handled: numbers[0], malformed: numbers[1], heap: numbers[2], descriptors: numbers[3])
        }
    }

    /// What comes of making a port there: "made", or the error.
    func newPort() throws -> String { String(decoding: try ask(2), as: UTF8.self) }

    /// Has it take all descriptors that there are, or let go of them.
    func hoard(_ isOn: Bool) throws { try right.send(MachPort.Message(id: isOn ? 3 : 4), before: .patience) }

    /// Has it set its limit lower than the descriptors that it has.
    func lowerLimit() throws { try right.send(MachPort.Message(id: 6), before: .patience) }

    /// Has it end by itself.
    func exit() throws { try right.send(MachPort.Message(id: 5), before: .patience) }

    private var folder: String { "\(sandbox.path)/\(right.id.incarnation)" }

    /// Where its port's socket is, and its control socket.
    var path: String { "\(folder)/\(right.id.number)" }
    var controlPath: String { "\(folder)/c" }

    /// The lines that it has written to its standard error.
    var log: [Substring] { Self.lines(of: logFile) }

    static func lines(of file: String) -> [Substring] {
        String(decoding: FileManager.default.contents(atPath: file) ?? Data(), as: UTF8.self).split(separator: "\n")
    }

    func hasLogged(_ words: String...) -> Bool { log.contains { line in words.allSatisfy { line.contains($0) } } }
}
