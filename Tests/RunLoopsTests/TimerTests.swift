import Oracle
import RunLoops
import Testing

@Suite struct TimerTests {
    @Test(arguments: [Duration.zero, .seconds(-1), .nanoseconds(-1), .seconds(Int64.min)])
    func `an interval of nothing or less fires once`(_ interval: Duration) {
        let (count, isValid) = onThread {
            let (loop, count) = (ThreadRunLoop.current, Shared(0))
            let timer = ThreadRunLoop.Timer(at: .now, every: interval) { _ in count.withLock { $0 += 1 } }
            loop.add(timer)
            run(loop, seconds: 20)
            return (count.withLock { $0 }, timer.isValid)
        }
        #expect(count == 1)
        #expect(!isValid)
    }

    @Test(arguments: [Duration.seconds(Int64.max), .seconds(1 << 40)])
    func `a huge interval fires once and waits`(_ interval: Duration) {
        let (count, isValid, next) = onThread {
            let (loop, count) = (ThreadRunLoop.current, Shared(0))
            let timer = ThreadRunLoop.Timer(at: .distantPast, every: interval) { _ in
                count.withLock { $0 += 1 }
                loop.stop()
            }
            loop.add(timer)
            run(loop, seconds: 20)
            run(loop, seconds: 0)
            return (count.withLock { $0 }, timer.isValid, timer.nextFireDate)
        }
        #expect(count == 1)
        #expect(isValid)
        #expect(next == .distantFuture)
    }

    @Test func `a timer of the distant future never fires`() {
        let result = onThread {
            let loop = ThreadRunLoop.current
            loop.add(ThreadRunLoop.Timer(at: .distantFuture) { _ in loop.stop() })
            return run(loop, seconds: 0.01)
        }
        #expect(result == .timedOut)
    }

    @Test func `an interval shorter than the callout leaves room for other items`() {
        let result = onThread {
            let loop = ThreadRunLoop.current
            let stop = ThreadRunLoop.Source0 { loop.stop() }
            loop.add(stop)
            loop.add(ThreadRunLoop.Timer(at: .now, every: .nanoseconds(1)) { _ in stop.signal() })
            return run(loop, seconds: 20)
        }
        #expect(result == .stopped)
    }

    @Test func `fire dates stay on the grid`() throws {
        let dates = onThread {
            let (loop, start) = (ThreadRunLoop.current, MonotonicInstant.now + .milliseconds(2))
            let dates = Shared<[Duration]>([])
            loop.add(
                ThreadRunLoop.Timer(at: start, every: .milliseconds(3)) { timer in
                    let count = dates.withLock { dates in
                        dates.append(start.duration(to: timer.nextFireDate))
                        return dates.count
                    }
                    if count == 2 { spin(milliseconds: 10) }
                    if count == 4 { timer.invalidate() }
                })
            run(loop, seconds: 20)
            return dates.withLock { $0 }
        }
        try #require(dates.count == 4)
        for date in dates { #expect(date.components.attoseconds % 3_000_000_000_000_000 == 0) }
        #expect(dates[2] - dates[1] > .milliseconds(9))
    }

    @Test func `an earlier timer added from another thread shortens the sleep`() throws {
        let thread = try RunLoopThread()
        thread.loop.add(ThreadRunLoop.Timer(after: .seconds(100)) { _ in })
        waitUntil { thread.loop.isWaiting }
        let fired = Gate()
        thread.loop.add(ThreadRunLoop.Timer(after: .milliseconds(1)) { _ in fired.open() })
        #expect(fired.wait(until: .patience))
        let again = Gate()
        let far = ThreadRunLoop.Timer(after: .seconds(100)) { _ in again.open() }
        thread.loop.add(far)
        waitUntil { thread.loop.isWaiting }
        far.nextFireDate = .now + .milliseconds(1)
        #expect(again.wait(until: .patience))
    }

    @Test func `a timer is one loop's until it is taken out`() throws {
        let (first, second) = (try RunLoopThread(), try RunLoopThread())
        let timer = ThreadRunLoop.Timer(after: .seconds(100)) { _ in }
        first.loop.add(timer)
        first.loop.add(timer, forMode: "other")
        second.loop.add(timer)
        #expect(!second.loop.contains(timer))
        first.loop.remove(timer)
        second.loop.add(timer)
        #expect(!second.loop.contains(timer))
        first.loop.remove(timer, forMode: "other")
        second.loop.add(timer)
        #expect(second.loop.contains(timer))
        first.stop()
        #expect(first.join(before: .patience))
        second.stop()
        #expect(second.join(before: .patience))
        #expect(!second.loop.contains(timer))
        #expect(timer.isValid)
    }

    @Test func `a timer that was taken out is let go of at once`() {
        let isGone = onThread {
            let loop = ThreadRunLoop.current
            weak var kept: ThreadRunLoop.Timer?
            do {
                let timer = ThreadRunLoop.Timer(after: .seconds(100)) { _ in }
                kept = timer
                loop.add(timer)
                loop.remove(timer)
            }
            return kept == nil
        }
        #expect(isGone)
    }

    @Test func `what a timer has captured may call it when it is let go of`() {
        onThread {
            let timers = Shared<[ThreadRunLoop.Timer]>([])
            let last = AtLast { for timer in timers.withLock({ $0 }) { timer.invalidate() } }
            let timer = ThreadRunLoop.Timer(after: .seconds(100)) { [last] _ in withExtendedLifetime(last) {} }
            timers.withLock { $0 = [timer] }
            ThreadRunLoop.current.add(timer)
            timer.invalidate()
        }
    }

    @Test func `timers and runs end on time when somebody sets the clock, as Foundation's do`() {
        #expect(helper("clock") == 0)
    }

    @Test func `many timers fire in the order of their dates`() {
        let fired = onThread {
            let (loop, fired) = (ThreadRunLoop.current, Shared<[Int]>([]))
            // Late enough for all to be made: a date in the past would count as now.
            let base = MonotonicInstant.now + .milliseconds(500)
            for index in (0..<1000).shuffled() {
                loop.add(
                    ThreadRunLoop.Timer(at: base + .microseconds(index)) { _ in fired.withLock { $0.append(index) } })
            }
            run(loop, seconds: 20)
            return fired.withLock { $0 }
        }
        #expect(fired == Array(0..<1000))
    }
}

/// Does something when it is let go of.
final class AtLast: Sendable {
    private let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    deinit { body() }
}
