import Ports
import RunLoops

/// Threads that send to a port whose queue holds two messages, so that each message waits for room.
final class FullQueue: Sendable {
    private let port: MachPort
    private let count: Count
    private let thread: RunLoopThread
    private let senders: SenderThreads

    init(senders: Int) throws {
        let count = Count()
        port = try MachPort(queueLimit: 2) { _ in count.count() }
        thread = try RunLoopThread { _ in Placement.apart.bindFar() }
        try port.schedule(in: thread.loop)
        self.count = count
        self.senders = try SenderThreads(senders, .apart)
    }

    deinit { port.invalidate() }

    /// Messages a second of all senders together.
    func rate(_ messages: Int) throws -> Double {
        let share = messages / senders.count
        count.expect(share * senders.count)
        let time = try seconds {
            try senders.run { [right = port.sendRight] _ in
                for _ in 0..<share { try right.send(MachPort.Message()) }
            }
            try count.isOver.waitForAnswer()
        }
        return Double(share * senders.count) / time
    }
}
