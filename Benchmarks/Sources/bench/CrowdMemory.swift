import CBench
import Ports
import RunLoops

/// Bytes of heap that one of many ports takes, or one of many sockets. Each is measured in a child, so that nothing of
/// what was measured before is freed meanwhile.
enum CrowdMemory {
    static let role = "memory"
    private static let ours = "ours"
    private static let size = 500

    /// - Parameter sent: Whether each port has had a message.
    static func ofPort(sent: Bool) throws -> Double { try measured(ours, sent, RawFrame(overhead: 0)) }
    static func ofRaw(_ frame: RawFrame, sent: Bool) throws -> Double { try measured("raw", sent, frame) }

    private static func measured(_ who: String, _ sent: Bool, _ frame: RawFrame) throws -> Double {
        guard let bytes = Double(try Child.output("\(role) \(who) \(sent ? "sent" : "silent"):\(frame.overhead)"))
        else {
            throw BenchError.noChild
        }
        return bytes
    }

    /// The child's side.
    static func serve(_ words: [String]) throws {
        let how = words.last?.split(separator: ":") ?? []
        guard words.count == 3, how.count == 2, let overhead = Int(how[1]) else {
            throw BenchError.role(words.joined(separator: " "))
        }
        let isSent = how[0] == "sent"
        print(try words[1] == ours ? port(isSent) : raw(RawFrame(overhead: overhead), isSent))
    }

    private static func perItem(_ add: (Int) throws -> Void) throws -> Double {
        // What the first takes is the library's.
        try add(0)
        let before = cb_heap()
        for index in 1...size { try add(index) }
        return (Double(cb_heap()) - Double(before)) / Double(size)
    }

    private static func port(_ isSent: Bool) throws -> Double {
        let thread = try RunLoopThread(name: "ports")
        var ports: [MachPort] = []
        ports.reserveCapacity(size + 1)
        let count = Count()
        return try perItem { _ in
            let port = try MachPort(queueLimit: Int(queueLimit)) { _ in count.count() }
            try port.schedule(in: thread.loop)
            ports.append(port)
            guard isSent else { return }
            count.expect(1)
            try port.sendRight.send(bytes: [UInt8](repeating: 0, count: 32).span.bytes)
            try count.isOver.waitForAnswer()
        }
    }

    private static func raw(_ frame: RawFrame, _ isSent: Bool) throws -> Double {
        var sockets: [RawSocket] = []
        sockets.reserveCapacity(2 * size + 2)
        return try perItem { index in
            let inbox = try RawSocket(bound: "inproc://\(index)", limit: queueLimit, frame)
            sockets.append(inbox)
            guard isSent else { return }
            let outbox = try RawSocket(connected: "inproc://\(index)", limit: 1, frame)
            sockets.append(outbox)
            try [UInt8](repeating: 0, count: 32).withUnsafeBytes { try outbox.send(Request.count, $0) }
            try inbox.receive(within: -1) { _, _ in }
        }
    }
}
