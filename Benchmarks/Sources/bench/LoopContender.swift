import RunLoops

/// A mode of the calling thread's run loop, and what the rows do with it. Each contender is specialized into the rows'
/// loops, so that nothing of the benchmark's stands between them.
protocol LoopContender {
    associatedtype Timer

    init(mode: String)

    /// Adds a source that nobody signals.
    func addSource0()
    /// Adds a source whose descriptor never becomes ready.
    func addSource1(_ descriptor: Int32) throws
    /// A timer that fires once, this number of seconds from now, and counts that.
    func makeTimer(after seconds: Double, counting count: Counter) -> Timer
    func add(_ timer: Timer)
    func invalidate(_ timer: Timer)
    /// One pass that does not sleep.
    func pass() throws
    /// Runs until a source was handled, or this number of seconds has passed.
    func run(before seconds: Double) throws
}

/// A number that the timers of one thread count up.
final class Counter: @unchecked Sendable {
    // Sound: it stays on the thread of its loop.
    var count = 0
}

/// The measurements of the run loop's rows, for any loop.
extension LoopContender {
    /// With this number of far timers, at dates in no order.
    func addFarTimers(_ count: Int) {
        for _ in 0..<count { add(makeFarTimer()) }
    }

    func makeFarTimer() -> Timer { makeTimer(after: .random(in: 3600..<7200), counting: Counter()) }

    /// Nanoseconds a pass.
    func nanosecondsAPass(_ passes: Int) throws -> Double {
        try seconds { for _ in 0..<passes { try pass() } } / Double(passes) * 1e9
    }

    /// Microseconds to add and invalidate one of the timers.
    func microsecondsATimer(_ count: Int) -> Double {
        let timers = (0..<count).map { _ in makeFarTimer() }
        let time = seconds {
            for timer in timers {
                add(timer)
                invalidate(timer)
            }
        }
        return time / Double(count) * 1e6
    }

    /// Milliseconds from the instant that all timers are due at until they have fired.
    func millisecondsToFire(_ count: Int) throws -> Double {
        let fired = Counter()
        let start = ContinuousClock.now
        // Late enough for all to be added before.
        let due = start + .milliseconds(60)
        for _ in 0..<count {
            let elapsed = start.duration(to: .now) / .seconds(1)
            add(makeTimer(after: 0.06 - elapsed, counting: fired))
        }
        // Foundation's loop keeps dates to the microsecond.
        while due + .milliseconds(1) > .now {}
        return try seconds { while fired.count < count { try pass() } } * 1e3
    }
}
