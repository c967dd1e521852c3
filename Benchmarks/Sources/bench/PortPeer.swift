import Dispatch
import Ports
import RunLoops
import Synchronization

/// Our ports: each end is a `MachPort` in the loop of a thread of its own, and its handler does the work.
final class PortPeer: Contender, Sendable {
    private let right: MachPort.SendRight
    private let asker: Asker

    private init(_ right: MachPort.SendRight, _ asker: Asker) {
        self.right = right
        self.asker = asker
    }

    /// To another thread of this process.
    static func inThread(_ thread: RunLoopThread) throws -> PortPeer {
        let asker = try Asker()
        let echo = try Self.echo(answering: asker.port.sendRight)
        try echo.schedule(in: thread.loop)
        asker.connect(to: echo.sendRight)
        return PortPeer(echo.sendRight, asker)
    }

    private static let askerName = "benchmark asker"

    /// To a child that `start` starts: it finds our port by its name, and tells us its own.
    static func inChild(_ start: () throws -> Void) throws -> PortPeer {
        let asker = try Asker()
        try PortNameServer.shared.register(asker.port, name: askerName)
        try start()
        return PortPeer(try asker.checkedIn(), asker)
    }

    /// The child's side; does not return.
    static func serve() throws {
        let asker = try PortNameServer.shared.port(forName: askerName)
        let echo = try echo(answering: asker)
        let thread = try RunLoopThread(name: "echo")
        try echo.schedule(in: thread.loop)
        try asker.send(MachPort.Message(replyPort: echo.sendRight))
        thread.join()
    }

    /// Counts and answers.
    private static func echo(answering asker: MachPort.SendRight) throws -> MachPort {
        let counted = Atomic<UInt32>.Box(0)
        return try MachPort(queueLimit: Int(queueLimit)) { message in
            // Only the loop's thread comes here, so no exchange is needed.
            let count = counted.value.load(ordering: .relaxed)
            if message.id == Request.count {
                counted.value.store(count + 1, ordering: .relaxed)
            } else if let placement = Request.placement(message.id) {
                placement.bindFar()
            } else {
                counted.value.store(0, ordering: .relaxed)
                do { try message.withBytes { try asker.send(id: count, bytes: $0) } } catch { fail(error) }
            }
        }
    }

    func bind(_ placement: Placement) throws {
        // The one that sends without waiting, and the one that takes turns with the other end.
        placement.bindNear()
        asker.bind(placement)
        try right.send(id: Request.bind(placement), bytes: [UInt8]().span.bytes)
    }

    func oneWay(_ messages: Int, payload: [UInt8]) throws -> Double {
        try seconds {
            for _ in 0..<messages { try right.send(id: Request.count, bytes: payload.span.bytes) }
            try ask(payload, expecting: messages)
        }
    }

    func oneWay(_ messages: Int, payload: [UInt8], from threads: SenderThreads) throws -> Double {
        let share = messages / threads.count
        return try seconds {
            try threads.run { [right] in
                for _ in 0..<share { try right.send(id: Request.count, bytes: payload.span.bytes) }
            }
            try ask(payload, expecting: share * threads.count)
        }
    }

    func roundTrips(_ messages: Int, payload: [UInt8]) throws -> Double {
        try seconds {
            asker.goOn(messages - 1)
            try ask(payload, expecting: 0)
        }
    }

    private func ask(_ payload: [UInt8], expecting count: Int) throws {
        try right.send(id: Request.answer, bytes: payload.span.bytes)
        let counted = asker.answer()
        guard counted == count else { throw BenchError.lost(sent: count, counted: counted) }
    }
}

/// The end that asks: the port that the answers come to.
private final class Asker: Sendable {
    let port: MachPort

    private struct State {
        var right: MachPort.SendRight?
        /// How many more questions follow by themselves, each when the one before was answered.
        var left = 0
        var counted = 0
    }

    private let state = Mutex(State())
    private let answered = DispatchSemaphore(value: 0)
    private let thread: RunLoopThread

    init() throws {
        thread = try RunLoopThread(name: "asker")
        port = try MachPort(queueLimit: Int(queueLimit))
        try port.schedule(in: thread.loop)
        port.setHandler { [unowned self] message in arrived(message) }
    }

    func bind(_ placement: Placement) { thread.loop.perform { placement.bindNear() } }

    func connect(to right: MachPort.SendRight) { state.withLock { $0.right = right } }

    /// The right that the other end sends when it is ready.
    func checkedIn() throws -> MachPort.SendRight {
        guard answered.wait(timeout: .now() + 10) == .success, let right = state.withLock({ $0.right }) else {
            throw BenchError.noChild
        }
        return right
    }

    func goOn(_ messages: Int) { state.withLock { $0.left = messages } }

    /// Waits for the last answer: how many messages were counted.
    func answer() -> Int {
        answered.wait()
        return state.withLock { $0.counted }
    }

    private func arrived(_ message: MachPort.Message) {
        let next = state.withLock { state -> MachPort.SendRight? in
            guard let right = state.right else {
                state.right = message.replyPort
                return nil
            }
            state.counted = Int(message.id)
            guard state.left > 0 else { return nil }
            state.left -= 1
            return right
        }
        guard let next else {
            answered.signal()
            return
        }
        do { try message.withBytes { try next.send(id: Request.answer, bytes: $0) } } catch { fail(error) }
    }
}

extension Atomic<UInt32> {
    /// An atomic that a closure can capture.
    fileprivate final class Box: Sendable {
        let value: Atomic<UInt32>
        init(_ value: UInt32) { self.value = Atomic(value) }
    }
}
