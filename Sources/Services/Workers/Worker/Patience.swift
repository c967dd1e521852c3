import RunLoops

/// A wait for some time in which this process runs.
///
/// The time of a process that is stopped, or whose machine is suspended, passes as well. When it goes on, a deadline has
/// passed, and what has come before the deadline may still be unread. So the time has several looks. A look that is late
/// does not count, and another one follows.
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
    /// Suspends until the value is set, this process has run for some time, or the end of the task.
    nonisolated(nonsending) func wait(within time: Duration) async -> Value? {
        var patience = Patience(time, from: .now)
        while true {
            if let value = await wait(until: patience.nextLook) { return value }
            if Task.isCancelled || patience.isOver(at: .now) { return nil }
        }
    }

    /// Blocks the thread until the value is set, or this process has run for some time.
    func block(within time: Duration) -> Value? {
        var patience = Patience(time, from: .now)
        while true {
            if let value = block(until: patience.nextLook) { return value }
            if patience.isOver(at: .now) { return nil }
        }
    }
}
