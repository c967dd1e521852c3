import Glibc
import Ports
import RunLoops

/// Microseconds that a port takes from its making to its end, with one message in between; and two raw sockets.
enum PortLife {
    private static let count = 50
    private static let payload = [UInt8](repeating: 7, count: 32)
    /// libzmq gives up the address of a closed socket later, on a thread of its own. Sound: used by the main thread alone.
    private nonisolated(unsafe) static var rounds = 0

    /// - Parameter named: Whether other processes can find the port, and reach it over ipc.
    static func ofPort(named: Bool) throws -> Double {
        let loop = ThreadRunLoop.current
        return try microseconds { number in
            let isOver = Count()
            let port = try MachPort(queueLimit: Int(queueLimit)) { _ in isOver.count() }
            if named { try PortNameServer.shared.register(port, name: "life \(number)") }
            try port.schedule(in: loop)
            isOver.expect(1)
            try port.sendRight.send(bytes: payload.span.bytes)
            _ = try loop.runInMode(.default, seconds: 10, returnAfterSourceHandled: true)
            try isOver.isOver.waitForAnswer()
            port.invalidate()
        }
    }

    static func ofRaw(_ frame: RawFrame, directory: String, named: Bool) throws -> Double {
        rounds += 1
        let life = "life \(rounds)"
        return try microseconds { number in
            let address = named ? "ipc://\(directory)/\(life) \(number)" : "inproc://\(life) \(number)"
            let receiver = try RawSocket(bound: address, limit: queueLimit, frame)
            let sender = try RawSocket(connected: address, limit: queueLimit, frame)
            try payload.withUnsafeBytes { try sender.send(1, $0) }
            var received = 0
            while received == 0 { try receiver.receive(within: 10) { _, _ in received += 1 } }
        }
    }

    private static func microseconds(_ live: (Int) throws -> Void) throws -> Double {
        let begin = ContinuousClock.now
        for number in 0..<count { try live(number) }
        return begin.duration(to: .now) / .microseconds(count)
    }
}
