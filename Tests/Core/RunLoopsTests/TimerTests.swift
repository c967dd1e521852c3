import CoreFoundation
import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct TimerTests {
    @Test(arguments: [Duration.zero, .seconds(-1), .nanoseconds(-1), .seconds(Int64.min)])
    func `an interval of nothing or less fires once`(_ interval: Duration) {
        let (count, isValid) = onThread {
            let (loop, count) = (ThreadRunLoop.current, Shared(0))
            let timer = ThreadRunLoop.Timer(at: .now, every: interval) { _ in count.withLock { $0 += 1 } }
            _ = try? loop.add(timer)
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
            _ = try? loop.add(timer)
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
            _ = try? loop.add(ThreadRunLoop.Timer(at: .distantFuture) { _ in loop.stop() })
            return run(loop, seconds: 0.01)
        }
        #expect(result == .timedOut)
    }

    @Test func `an interval shorter than the callout leaves room for other items`() {
        let result = onThread {
            let loop = ThreadRunLoop.current
            let stop = ThreadRunLoop.Source0 { loop.stop() }
            _ = try? loop.add(stop)
            _ = try? loop.add(ThreadRunLoop.Timer(at: .now, every: .nanoseconds(1)) { _ in stop.signal() })
            return run(loop, seconds: 20)
        }
        #expect(result == .stopped)
    }

    @Test func `fire dates stay on the grid`() throws {
        let dates = onThread {
            let (loop, start) = (ThreadRunLoop.current, ContinuousClock.now + .milliseconds(2))
            let dates = Shared<[Duration]>([])
            _ = try? loop.add(
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
        try thread.loop.add(ThreadRunLoop.Timer(after: .seconds(100)) { _ in })
        waitUntil { thread.loop.isWaiting }
        let fired = Latch()
        try thread.loop.add(ThreadRunLoop.Timer(after: .milliseconds(1)) { _ in fired.open() })
        #expect(fired.wait(until: .patience))
        let again = Latch()
        let far = ThreadRunLoop.Timer(after: .seconds(100)) { _ in again.open() }
        try thread.loop.add(far)
        waitUntil { thread.loop.isWaiting }
        far.nextFireDate = .now + .milliseconds(1)
        #expect(again.wait(until: .patience))
    }

    @Test func `a timer that another thread takes out does not wake the loop`() throws {
        let deadline = ContinuousClock.Instant.patience
        var isTooLate = true
        while isTooLate, !deadline.hasPassed {
            let (thread, wakeUps, done) = (try RunLoopThread(), Shared<[ContinuousClock.Instant]>([]), Latch())
            let observer = ThreadRunLoop.Observer(.afterWaiting) { _, _ in wakeUps.withLock { $0.append(.now) } }
            let dates = [100, 150].map { ContinuousClock.now + .milliseconds($0) }
            let near = ThreadRunLoop.Timer(at: dates[0]) { _ in }
            let far = ThreadRunLoop.Timer(at: dates[1]) { _ in done.open() }
            try thread.run { for timer in [near, far] { try ThreadRunLoop.current.add(timer) } }
            try thread.loop.add(observer)
            waitUntil { thread.loop.isWaiting }
            near.invalidate()
            isTooLate = dates[0].hasPassed
            #expect(done.wait(until: .patience))
            // The wake-up for the call that has added the timers may end a second sleep, long before.
            if !isTooLate { #expect(!wakeUps.withLock { $0.contains { $0 >= dates[0] && $0 < dates[1] } }) }
        }
        #expect(!isTooLate)
    }

    @Test func `a timer that is dated over and over takes no more memory`() {
        #expect(helper("dates") == 0)
    }

    @Test func `a timer is one loop's until it is taken out`() throws {
        let (first, second) = (try RunLoopThread(), try RunLoopThread())
        let timer = ThreadRunLoop.Timer(after: .seconds(100)) { _ in }
        try first.loop.add(timer)
        try first.loop.add(timer, forMode: "other")
        try second.loop.add(timer)
        #expect(!second.loop.contains(timer))
        first.loop.remove(timer)
        try second.loop.add(timer)
        #expect(!second.loop.contains(timer))
        first.loop.remove(timer, forMode: "other")
        try second.loop.add(timer)
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
                _ = try? loop.add(timer)
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
            _ = try? ThreadRunLoop.current.add(timer)
            timer.invalidate()
        }
    }

    @Test func `timers and runs end on time when somebody sets the clock, as Foundation's do`() {
        #expect(helper("clock") == 0)
    }

    @Test(arguments: [0, -1, 10, 0.5])
    func `a timer answers as Foundation's does`(_ interval: Double) {
        let theirs = CFRunLoopTimerCreateWithHandler(nil, CFAbsoluteTimeGetCurrent() + 100, interval, 0, 7) { _ in }
        let ours = ThreadRunLoop.Timer(at: .now + .seconds(100), every: .seconds(interval), order: 7) { _ in }
        func compare() {
            #expect((ours.interval ?? .zero) / .seconds(1) == CFRunLoopTimerGetInterval(theirs))
            #expect(ours.repeats == CFRunLoopTimerDoesRepeat(theirs))
            #expect(ours.order == CFRunLoopTimerGetOrder(theirs))
            #expect(ours.isValid == CFRunLoopTimerIsValid(theirs))
        }
        func compareDates() {
            let date = CFRunLoopTimerGetNextFireDate(theirs) - CFAbsoluteTimeGetCurrent()
            #expect(abs(ContinuousClock.now.duration(to: ours.nextFireDate) / .seconds(1) - date) < 10)
        }
        compare()
        compareDates()
        CFRunLoopTimerSetNextFireDate(theirs, CFAbsoluteTimeGetCurrent() + 1000)
        ours.nextFireDate = .now + .seconds(1000)
        compareDates()
        CFRunLoopTimerInvalidate(theirs)
        ours.invalidate()
        #expect(!ours.isValid)
        // Foundation's date and interval are gone then; ours can still be asked for.
        #expect(CFRunLoopTimerGetNextFireDate(theirs) == 0)
        #expect(ContinuousClock.now.duration(to: ours.nextFireDate) > .seconds(900))
        // A new one is not kept by either.
        CFRunLoopTimerSetNextFireDate(theirs, CFAbsoluteTimeGetCurrent() + 10)
        ours.nextFireDate = .now + .seconds(10)
        #expect(CFRunLoopTimerGetNextFireDate(theirs) == 0)
        #expect(ContinuousClock.now.duration(to: ours.nextFireDate) > .seconds(900))
    }

    @Test func `a date in the past counts as now, in Foundation's timer when it fires only`() {
        let theirs = CFRunLoopTimerCreateWithHandler(nil, CFAbsoluteTimeGetCurrent() - 100, 0, 0, 0) { _ in }
        #expect(CFRunLoopTimerGetNextFireDate(theirs) < CFAbsoluteTimeGetCurrent() - 90)
        let before = ContinuousClock.now
        let ours = ThreadRunLoop.Timer(at: before + .seconds(-100)) { _ in }
        #expect(ours.nextFireDate >= before)
        ours.nextFireDate = .distantPast
        #expect(ours.nextFireDate >= before)
    }

    @Test func `a tolerance is kept, up to half the interval, of which Foundation keeps nothing here`() {
        let theirs = CFRunLoopTimerCreateWithHandler(nil, 0, 10, 0, 0) { _ in }
        let once = ThreadRunLoop.Timer(after: .seconds(10)) { _ in }
        let often = ThreadRunLoop.Timer(after: .seconds(10), repeats: true) { _ in }
        #expect(once.tolerance == .zero)
        #expect(often.tolerance == .zero)
        for seconds in [3.0, 5, 6, 1000, -1] {
            CFRunLoopTimerSetTolerance(theirs, seconds)
            once.tolerance = .seconds(seconds)
            often.tolerance = .seconds(seconds)
            #expect(CFRunLoopTimerGetTolerance(theirs) == 0)
            #expect(once.tolerance == .seconds(max(0, seconds)))
            #expect(often.tolerance == .seconds(min(5, max(0, seconds))))
        }
    }

    @Test func `a mode's next fire date is that of its earliest timer`() {
        let (theirs, ours) = onThread {
            let modes: (CFRunLoopMode?, ThreadRunLoop.Mode) = (kCFRunLoopDefaultMode, .default)
            let (theirLoop, ourLoop) = (CFRunLoopGetCurrent(), ThreadRunLoop.current)
            var (theirs, ours): ([Int?], [Int?]) = ([], [])
            func ask() {
                let date = CFRunLoopGetNextTimerFireDate(theirLoop, modes.0)
                theirs.append(date == 0 ? nil : Int((date - CFAbsoluteTimeGetCurrent()) / 100 + 0.5))
                let next = ourLoop.nextTimerFireDate(forMode: modes.1)
                ours.append(next.map { Int(ContinuousClock.now.duration(to: $0) / .seconds(100) + 0.5) })
            }
            ask()
            var made: [(CFRunLoopTimer?, ThreadRunLoop.Timer)] = []
            for hundreds in [5, 3, 8] {
                let their = CFRunLoopTimerCreateWithHandler(
                    nil, CFAbsoluteTimeGetCurrent() + Double(hundreds) * 100, 0, 0, 0
                ) { _ in }
                let our = ThreadRunLoop.Timer(after: .seconds(hundreds * 100)) { _ in }
                CFRunLoopAddTimer(theirLoop, their, modes.0)
                _ = try? ourLoop.add(our, forMode: modes.1)
                made.append((their, our))
                ask()
            }
            CFRunLoopTimerSetNextFireDate(made[2].0, CFAbsoluteTimeGetCurrent() + 100)
            made[2].1.nextFireDate = .now + .seconds(100)
            ask()
            for index in [2, 1, 0] {
                CFRunLoopTimerInvalidate(made[index].0)
                made[index].1.invalidate()
                ask()
            }
            return (theirs, ours)
        }
        #expect(ours == [nil, 5, 3, 3, 1, 3, 5, nil])
        #expect(theirs == ours)
    }

    @Test func `many timers fire in the order of their dates`() {
        let fired = onThread {
            let (loop, fired) = (ThreadRunLoop.current, Shared<[Int]>([]))
            // Late enough for all to be made: a date in the past would count as now.
            let base = ContinuousClock.now + .seconds(2)
            for index in (0..<1000).map({ $0 * 387 % 1000 }) {
                _ = try? loop.add(
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
