import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct StallMonitorTests {
    private static let threshold = Duration.milliseconds(20)

    /// Watches a fresh thread while it does something, and returns what is reported up to the end of the first stall.
    /// - Parameter body: Gets what makes a stall: it lasts until it is told, however late the monitor gets a processor.
    private func reports(
        _ body: @escaping @Sendable (ThreadRunLoop, _ stall: @escaping @Sendable () -> Void) -> Void
    ) throws -> [StallMonitor.Stall] {
        let thread = try RunLoopThread()
        let (stalls, isTold, isOver) = (Shared<[StallMonitor.Stall]>([]), Latch(), Latch())
        let begin = Shared<ContinuousClock.Instant?>(nil)
        let monitor = try StallMonitor(thread.loop, threshold: Self.threshold) { stall in
            guard Self.isStalled(since: begin, stall) else { return }
            defer { isTold.open() }
            let isFirstEnd = stalls.withLock { stalls in
                let isFirst = !stalls.contains(where: \.isOver)
                if isFirst { stalls.append(stall) }
                return isFirst && stall.isOver
            }
            if isFirstEnd { isOver.open() }
        }
        body(thread.loop) {
            begin.withLock { $0 = .now }
            _ = isTold.wait(until: .patience)
        }
        #expect(isOver.wait(until: .patience))
        monitor.stop()
        return stalls.withLock { $0 }
    }

    /// On a busy machine, something short before the stall may have been one.
    private static func isStalled(since begin: Shared<ContinuousClock.Instant?>, _ stall: StallMonitor.Stall) -> Bool {
        begin.withLock { $0 }.map { stall.since + stall.duration > $0 } ?? false
    }

    @Test func `a stall is told while it lasts and when it is over`() throws {
        let start = ContinuousClock.now
        let stalls = try reports { loop, stall in
            _ = try? loop.add(
                ThreadRunLoop.Timer(after: .zero, label: "slow") { _ in
                    stall()
                    spin(milliseconds: 100)
                })
        }
        #expect(stalls.count >= 2)
        #expect(stalls.dropLast().allSatisfy { !$0.isOver && $0.duration > Self.threshold })
        for stall in stalls {
            #expect(stall.item == "timer \"slow\"")
            #expect(stall.callout == .timer)
            #expect(stall.mode == .default)
            #expect(stall.since == stalls[0].since)
            #expect(stall.since > start + .milliseconds(-10))
        }
        #expect(zip(stalls, stalls.dropFirst()).allSatisfy { $0.duration <= $1.duration })
        #expect((stalls.last?.duration ?? .zero) >= .milliseconds(100))
        #expect("\(stalls[0])".hasPrefix("has been stalled for "))
        #expect("\(stalls[0])".hasSuffix("by timer \"slow\""))
    }

    @Test func `a stall is told again when it has taken twice as long, and four times`() throws {
        let (thread, durations, done) = (try RunLoopThread(), Shared<[Duration]>([]), Latch())
        let begin = Shared<ContinuousClock.Instant?>(nil)
        let monitor = try StallMonitor(thread.loop, threshold: Self.threshold) { stall in
            guard Self.isStalled(since: begin, stall) else { return }
            let count = durations.withLock { durations in
                durations.append(stall.duration)
                return durations.count
            }
            // Where the monitor is late, each of them takes twice as long as the one before.
            if count == 3 { done.open() }
        }
        let isInTime = try thread.run {
            begin.withLock { $0 = .now }
            return done.wait(until: .patience)
        }
        #expect(isInTime)
        monitor.stop()
        let told = durations.withLock { $0 }.prefix(3)
        for (one, next) in zip(told, told.dropFirst()) { #expect(next >= one * 2) }
    }

    @Test(arguments: [.block, .task, .source, .timer, .observer] as [CalloutKind])
    func `the kind of callout is reported`(_ kind: CalloutKind) throws {
        let stalls = try reports { loop, stall in
            switch kind {
            case .block: try? loop.perform(stall)
            case .task:
                Task.detached(executorPreference: loop.taskExecutor) { stall() }
            case .source:
                let source = ThreadRunLoop.Source0(label: "s", perform: stall)
                _ = try? loop.add(source)
                source.signal()
                loop.wakeUp()
            case .observer:
                _ = try? loop.add(
                    ThreadRunLoop.Observer(.beforeTimers, repeats: false) { _, _ in stall() })
                loop.wakeUp()
            default:
                _ = try? loop.add(ThreadRunLoop.Timer(after: .milliseconds(1)) { _ in stall() })
            }
        }
        #expect(stalls.first?.callout == kind)
    }

    @Test func `a descriptor's source is named`() throws {
        let event = madeEvent()
        event.raise()
        let stalls = try reports { loop, stall in
            add(
                ThreadRunLoop.Source1(descriptor: event.descriptor) { turn in
                    turn.source.invalidate()
                    stall()
                    return true
                }, to: loop)
        }
        // It has left the loop, so that it has no name any more.
        #expect(stalls.first?.callout == .source)
        #expect(stalls.first?.item == nil)
    }

    @Test func `a loop that sleeps, or that many short callouts keep busy, is no stall`() throws {
        let thread = try RunLoopThread()
        let stalls = Shared<[StallMonitor.Stall]>([])
        // On a busy machine a short callout is a long one now and then.
        let monitor = try StallMonitor(thread.loop, threshold: .seconds(2)) { stall in
            stalls.withLock { $0.append(stall) }
        }
        let calls = Shared(0)
        let done = Latch()
        try thread.loop.add(
            ThreadRunLoop.Timer(after: .milliseconds(1), repeats: true) { timer in
                spin(milliseconds: 1)
                let count = calls.withLock { calls in
                    calls += 1
                    return calls
                }
                if count == 30 {
                    timer.invalidate()
                    done.open()
                }
            })
        #expect(done.wait(until: .patience))
        monitor.stop()
        #expect(stalls.withLock { $0.isEmpty })
    }

    @Test func `an inner run that serves the loop is no stall`() throws {
        let stalls = try reports { loop, stall in
            _ = try? loop.add(ThreadRunLoop.Source0 {}, forMode: "inner")
            try? loop.perform {
                // Longer than the threshold, but asleep.
                run(loop, "inner", seconds: 0.05)
                _ = try? loop.add(
                    ThreadRunLoop.Timer(after: .zero, label: "the real one") { _ in stall() })
            }
        }
        #expect(stalls.first?.item == "timer \"the real one\"")
    }

    @Test(.enabled(if: !isThreadSanitized)) func `a monitor of a loop that sleeps sleeps too`() {
        #expect(helper("idle") == 0)
    }

    @Test(arguments: [false, true])
    func `nothing is told after the monitor has stopped, or was let go of`(_ stops: Bool) throws {
        let thread = try RunLoopThread()
        let (count, isTold, isToldOfEnd) = (Shared(0), Latch(), Latch())
        var monitor: StallMonitor? = try StallMonitor(thread.loop, threshold: Self.threshold) { stall in
            count.withLock { $0 += 1 }
            isTold.open()
            if stall.isOver { isToldOfEnd.open() }
        }
        try thread.loop.perform { _ = isTold.wait(until: .patience) }
        #expect(isToldOfEnd.wait(until: .patience))
        try thread.run {}
        let (isInside, mayGoOn) = (Latch(), Latch())
        try thread.loop.perform {
            isInside.open()
            _ = mayGoOn.wait(until: .patience)
        }
        #expect(isInside.wait(until: .patience))
        if stops { monitor?.stop() } else { monitor = nil }
        // A call of the handler that was in progress may still be.
        let before = ContinuousClock.now + .milliseconds(100)
        waitUntil { before.hasPassed }
        let told = count.withLock { $0 }
        let end = ContinuousClock.now + .milliseconds(100)
        waitUntil { end.hasPassed }
        mayGoOn.open()
        try thread.run { spin(milliseconds: 60) }
        #expect(count.withLock { $0 } == told)
        withExtendedLifetime(monitor) {}
    }

    @Test func `a monitor knows nothing of a pass in which the one before it was stopped`() throws {
        let thread = try RunLoopThread()
        let former = try StallMonitor(thread.loop, threshold: .seconds(60)) { _ in }
        // The first pass that is watched begins after this one.
        try thread.run {}
        try thread.run { former.stop() }
        waitUntil { thread.loop.isWaiting }
        let end = ContinuousClock.now + .milliseconds(50)
        waitUntil { end.hasPassed }
        let (stalls, isTold, isToldOfEnd) = (Shared<[StallMonitor.Stall]>([]), Latch(), Latch())
        let monitor = try StallMonitor(thread.loop, threshold: Self.threshold) { stall in
            stalls.withLock { $0.append(stall) }
            isTold.open()
            if stall.isOver { isToldOfEnd.open() }
        }
        // Time to look at a loop that sleeps.
        waitUntil { (end + .milliseconds(50)).hasPassed }
        try thread.run { _ = isTold.wait(until: .patience) }
        #expect(isToldOfEnd.wait(until: .patience))
        monitor.stop()
        #expect(stalls.withLock { $0 }.allSatisfy { $0.since >= end + .milliseconds(-10) })
    }
}
