import RunLoopLocks
import RunLoops

/// The thread for control connections, deadlines and deferred sends. It starts at the first use, and never blocks.
final class Housekeeping: Sendable {
    private let thread = Lock<RunLoopThread?>(nil)

    func loop() throws(PortError) -> ThreadRunLoop { try withLoop { $0 } }

    var isCurrent: Bool { thread.withLock { $0?.loop }?.isCurrent ?? false }

    func perform(_ body: @escaping @Sendable () -> Void) throws(PortError) {
        try withLoop { (loop) throws(RunLoopError) in try loop.perform(body) }
    }
    func add(_ timer: ThreadRunLoop.Timer) throws(PortError) {
        try withLoop { (loop) throws(RunLoopError) in try loop.add(timer) }
    }

    @discardableResult
    private func withLoop<Result>(_ use: (ThreadRunLoop) throws(RunLoopError) -> Result) throws(PortError) -> Result {
        // Under the lock, because work that is added after the thread's end would never run.
        try thread.withLock { (thread) throws(PortError) in
            func start() throws(RunLoopError) -> RunLoopThread { try RunLoopThread(name: "ports") }
            let made = if let thread { thread } else { try runLoop(start) }
            thread = made
            // A loop does not wake for work that its own thread adds, and could sleep with the work undone.
            defer { if made.loop.isCurrent { made.loop.wakeUp() } }
            do throws(RunLoopError) { return try use(made.loop) } catch { throw PortError(error) }
        }
    }

    /// Calls the closure after the delay. Without a thread, the closure is never called.
    func perform(after delay: Duration, _ body: @escaping @Sendable () -> Void) {
        try? add(ThreadRunLoop.Timer(after: delay) { _ in body() })
    }

    func add(_ source: ThreadRunLoop.Source1) throws(PortError) {
        try withLoop { (loop) throws(RunLoopError) in try loop.add(source) }
    }

    /// Ends the thread after the queued work, because senders wait for the outcome of that work.
    func stop() {
        guard let ended = thread.withLock({ $0.take() }) else { return }
        // This request runs after all others. It retains the thread until then, because the release would stop the
        // thread at once.
        _ = try? ended.loop.perform(order: .max) { ended.stop() }
        ended.loop.wakeUp()
    }
}
