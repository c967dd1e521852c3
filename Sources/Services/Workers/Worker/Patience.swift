import Ports
import RunLoops

/// A wait for some time in which this process runs, and hears others.
///
/// The time of a process that is stopped, or whose machine is suspended, passes as well. When it goes on, a deadline has
/// passed, and what has come before the deadline may still be unread. The same is true while a handler blocks the library's
/// own thread. So the time has several looks. A look that is late does not count, and another one follows.
struct Patience {
    private let period: Duration
    /// A look that is later than this shows that the process did not run.
    private let delay: Duration
    private var looks = 4
    private(set) var nextLook: ContinuousClock.Instant

    init(_ time: Duration, from start: ContinuousClock.Instant) {
        period = time / looks
        delay = max(period, .milliseconds(10))
        nextLook = start + period
    }

    /// Nothing has come until now.
    /// - Returns: Whether the time is over.
    mutating func isOver(at now: ContinuousClock.Instant) -> Bool {
        if now < nextLook + delay { looks -= 1 }
        nextLook = now + period
        return looks <= 0
    }
}

extension OneShot {
    /// Suspends until the value is set by something that a worker does, this process has heard the worker for some time, or
    /// the end of the task.
    nonisolated(nonsending) func wait(within time: Duration, of worker: WorkerProcess) async -> Value? {
        var patience = Patience(time, from: .now)
        while true {
            if let value = await wait(until: patience.nextLook) { return value }
            await worker.caughtUp().wait()
            if Task.isCancelled || patience.isOver(at: .now) { return value }
        }
    }

    /// Blocks the thread as the form that suspends does.
    func block(within time: Duration, of worker: WorkerProcess) -> Value? {
        var patience = Patience(time, from: .now)
        while true {
            if let value = block(until: patience.nextLook) { return value }
            worker.caughtUp().block()
            if patience.isOver(at: .now) { return value }
        }
    }
}
