import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct IdleQueueTests {
    @Test func `tasks are called in order when the loop is about to sleep`() {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            let source = ThreadRunLoop.Source0 { trace("source") }
            _ = try? loop.add(source)
            source.signal()
            let idle = made { try ThreadRunLoop.IdleQueue(in: loop) }
            for number in 0..<3 { _ = try? idle.add { trace("\(number)") } }
            try? loop.perform { trace("block") }
            _ = try? idle.add { loop.stop() }
            trace("\(idle.count)")
            trace("\(run(loop, seconds: 20))")
            trace("\(idle.count == 0)")
            return trace.all
        }
        #expect(trace == ["4", "block", "source", "0", "1", "2", "stopped", "true"])
    }

    @Test func `events get their turn when the budget is spent, and each time one task`() {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            let idle = made { try ThreadRunLoop.IdleQueue(in: loop, budget: .zero) }
            let source = ThreadRunLoop.Source0 { trace("source") }
            _ = try? loop.add(source)
            for number in 0..<3 {
                _ = try? idle.add {
                    trace("\(number)")
                    source.signal()
                    try? loop.perform { trace("block") }
                    _ = try? loop.perform(after: .zero) { trace("timer") }
                }
            }
            // A pass more than there are tasks: the last one's events.
            _ = try? idle.add { try? loop.perform { loop.stop() } }
            trace("\(run(loop, seconds: 20))")
            return trace.all
        }
        let told = trace.filter { $0 != "timer" }
        #expect(told == ["0", "block", "source", "1", "block", "source", "2", "block", "source", "stopped"])
        // A pass serves one thing that wakes it.
        for number in 1...2 {
            #expect(trace.firstIndex(of: "timer") ?? .max < trace.firstIndex(of: "\(number)") ?? 0, "\(trace)")
        }
    }

    @Test func `several tasks are called at a time while the budget lasts`() {
        let passes = onThread {
            let (loop, passes) = (ThreadRunLoop.current, Shared(0))
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            _ = try? loop.add(ThreadRunLoop.Observer(.beforeTimers) { _, _ in passes.withLock { $0 += 1 } })
            let idle = made { try ThreadRunLoop.IdleQueue(in: loop, budget: .seconds(100)) }
            for _ in 0..<1000 { _ = try? idle.add {} }
            _ = try? idle.add { loop.stop() }
            run(loop, seconds: 20)
            return passes.withLock { $0 }
        }
        #expect(passes == 1)
    }

    @Test func `a task that adds another each time leaves room for events`() {
        let result = onThread {
            let loop = ThreadRunLoop.current
            let idle = made { try ThreadRunLoop.IdleQueue(in: loop, budget: .seconds(100)) }
            let again = Shared<(@Sendable () -> Void)?>(nil)
            again.withLock { $0 = { _ = try? idle.add { again.withLock { $0 }?() } } }
            again.withLock { $0 }?()
            _ = try? loop.perform(after: .milliseconds(2)) { loop.stop() }
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let result = run(loop, seconds: 20)
            again.withLock { $0 = nil }
            return result
        }
        #expect(result == .stopped)
    }

    @Test func `a task from another thread wakes the loop, and an empty queue leaves it asleep`() throws {
        let (thread, passes) = (try RunLoopThread(), Shared(0))
        let idle = try ThreadRunLoop.IdleQueue(in: thread.loop)
        try thread.loop.add(ThreadRunLoop.Observer(.beforeTimers) { _, _ in passes.withLock { $0 += 1 } })
        for _ in 0..<100 {
            waitUntil { thread.loop.isWaiting }
            let done = Latch()
            try idle.add { done.open() }
            #expect(done.wait(until: .patience))
        }
        waitUntil { thread.loop.isWaiting }
        // For each task a pass for the wake-up, one after it, and one more if the wake-up came on the way to sleep.
        #expect(passes.withLock { $0 } <= 3 * 100 + 2)
    }

    @Test func `a task added just before the loop sleeps is called first`() throws {
        let (thread, done) = (try RunLoopThread(), Latch())
        let idle = try ThreadRunLoop.IdleQueue(in: thread.loop)
        // Later than the queue's own turn.
        try thread.loop.add(
            ThreadRunLoop.Observer(.beforeWaiting, repeats: false, order: .max) { _, _ in
                _ = try? idle.add { done.open() }
            })
        thread.loop.wakeUp()
        #expect(done.wait(until: .patience))
    }

    @Test func `no task is lost among many threads`() throws {
        let (thread, count, done) = (try RunLoopThread(), Shared(0), Latch())
        let idle = try ThreadRunLoop.IdleQueue(in: thread.loop, budget: .microseconds(50))
        let helpers = (0..<4).map { _ in
            Helper {
                for _ in 0..<5_000 {
                    _ = try? idle.add {
                        let count = count.withLock { count in
                            count += 1
                            return count
                        }
                        if count == 20_000 { done.open() }
                    }
                }
            }
        }
        #expect(done.wait(until: .patience), "\(count.withLock { $0 })")
        for helper in helpers { helper.join() }
    }

    @Test func `tasks wait for one of their modes`() {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            let idle = made { try ThreadRunLoop.IdleQueue(in: loop, modes: ["served"]) }
            for mode in [.default, "served"] as [ThreadRunLoop.Mode] {
                made { _ = try loop.add(ThreadRunLoop.Source0 {}, forMode: mode) }
            }
            _ = try? idle.add { trace("task") }
            trace("\(run(loop, seconds: 0.002))")
            trace("\(run(loop, "served", seconds: 0))")
            trace("\(run(loop, "served", seconds: 0.1))")
            return trace.all
        }
        #expect(trace == ["timedOut", "timedOut", "task", "timedOut"])
    }

    @Test func `tasks that were taken back are not called`() {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let idle = made { try ThreadRunLoop.IdleQueue(in: loop) }
            let requests = (0..<4).map { number in made { try idle.add { trace("\(number)") } } }
            requests[1].cancel()
            trace("\(idle.count) \(requests.map(\.isPending))")
            run(loop, seconds: 0.1)
            trace("\(idle.count) \(requests.map(\.isPending))")
            let late = (0..<4).map { number in made { try idle.add { trace("late \(number)") } } }
            idle.cancelAll()
            trace("\(idle.count) \(late.map(\.isPending))")
            run(loop, seconds: 0.002)
            return trace.all
        }
        #expect(
            trace == [
                "3 [true, false, true, true]", "0", "2", "3", "0 [false, false, false, false]",
                "0 [false, false, false, false]",
            ])
    }

    @Test func `tasks are called though the queue was let go of, and then it is gone`() {
        let (trace, isGone, dump, bare) = onThread {
            let (loop, trace, isGone) = (ThreadRunLoop.current, Trace(), Shared(false))
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let bare = "\(loop)"
            do {
                let idle = made { try ThreadRunLoop.IdleQueue(in: loop) }
                let last = AtLast { isGone.withLock { $0 = true } }
                _ = try? idle.add { withExtendedLifetime(last) { trace("task") } }
            }
            run(loop, seconds: 0.1)
            return (trace.all, isGone.withLock { $0 }, "\(loop)", bare)
        }
        #expect(trace == ["task"])
        #expect(isGone)
        #expect(dump == bare)
    }

    @Test func `a queue ends with its loop`() {
        let isGone = Shared(false)
        let (idle, request) = onThread {
            let idle = made { try ThreadRunLoop.IdleQueue(in: .current) }
            let last = AtLast { isGone.withLock { $0 = true } }
            return (idle, made { try idle.add { withExtendedLifetime(last) {} } })
        }
        #expect(isGone.withLock { $0 })
        #expect(idle.count == 0)
        #expect(!request.isPending)
        #expect(throws: RunLoopError.loopEnded) { try idle.add { Issue.record("called after the end") } }
        idle.cancelAll()
        request.cancel()
    }
}
