import CBench
import Glibc
import Ports
import Synchronization

/// What serves a port: a thread with a loop of some kind, a queue, a task.
protocol PortHost: LoopThread {
    func serve(_ port: MachPort, _ handler: @escaping MachPort.Handler) throws
}

extension OurThread: PortHost {
    func serve(_ port: MachPort, _ handler: @escaping MachPort.Handler) throws {
        port.setHandler(handler)
        try port.schedule(in: thread.loop)
    }
}

extension QueueThread: PortHost {
    func serve(_ port: MachPort, _ handler: @escaping MachPort.Handler) throws {
        port.setHandler(handler)
        try port.setQueue(queue)
    }
}

/// A task for each port.
struct TaskHost: PortHost {
    static let isThread = false

    func execute(_ work: @escaping @Sendable () -> Void) { Task { work() } }

    func serve(_ port: MachPort, _ handler: @escaping MachPort.Handler) {
        Task { for await message in port.messages { handler(message) } }
    }
}

/// A thread with an epoll loop of its own, which has a port's descriptor.
final class EpollThread: PortHost {
    private struct State {
        var work: [@Sendable () -> Void] = []
        var port: PortDescriptor<MachPort>?
    }

    private let state = Mutex(State())
    private let event = cb_event()
    private let set = cb_set()

    init() throws {
        guard event >= 0, set >= 0, cb_set_add(set, event, 0) == 0 else {
            throw BenchError.system("epoll", errno: errno)
        }
        // As long as the port, which ends with the program: a benchmark makes two.
        try PlainThread.start { while self.turn() {} }
    }

    /// False when the port has ended.
    private func turn() -> Bool {
        var number: UInt32 = 0
        guard cb_set_wait(set, &number, 1) == 1 else { return true }
        if number == 0 {
            var count: UInt64 = 0
            _ = read(event, &count, 8)
            for work in state.withLock({ exchange(&$0.work, with: []) }) { work() }
        } else {
            do throws(PortError) {
                try state.withLock { $0.port }?.handle()
            } catch .isInvalid {
                return false
            } catch {
                fail(error)
            }
        }
        return true
    }

    func execute(_ work: @escaping @Sendable () -> Void) {
        state.withLock { $0.work.append(work) }
        var one: UInt64 = 1
        _ = write(event, &one, 8)
    }

    func serve(_ port: MachPort, _ handler: @escaping MachPort.Handler) throws {
        port.setHandler(handler)
        let descriptor = try PortDescriptor(port)
        state.withLock { $0.port = descriptor }
        guard cb_set_add(set, descriptor.fileDescriptor, 1) == 0 else { throw BenchError.system("epoll", errno: errno) }
    }
}
