import Glibc
import Oracle
import OwnThread
import RunLoops
import Synchronization
import TestSupport
import Testing

@Suite(.ownThread) struct WakeUpTests {
    @Test func `a wake-up ends a sleep`() throws {
        let thread = try RunLoopThread()
        let woken = Latch()
        try thread.loop.perform { _ = try? thread.loop.add(.init(.afterWaiting) { _, _ in woken.open() }) }
        waitUntil { thread.loop.isWaiting }
        thread.loop.wakeUp()
        #expect(woken.wait(until: .patience))
        thread.stop()
        #expect(thread.join(before: .patience))
    }

    @Test func `no block is lost among many threads`() throws {
        let thread = try RunLoopThread()
        let count = Shared(0)
        let all = 4 * 50_000
        let done = Latch()
        let helpers = (0..<4).map { _ in
            Helper {
                for _ in 0..<50_000 {
                    try? thread.loop.perform {
                        let count = count.withLock { count in
                            count += 1
                            return count
                        }
                        if count == all { done.open() }
                    }
                }
            }
        }
        #expect(done.wait(until: .patience), "\(count.withLock { $0 }) of \(all)")
        for helper in helpers { helper.join() }
        thread.stop()
        #expect(thread.join(before: .patience))
    }

    @Test func `no signal is lost between two loops that answer each other`() throws {
        let rounds = 5_000
        let (first, second) = (try RunLoopThread(name: "first"), try RunLoopThread(name: "second"))
        let (done, count) = (Latch(), Shared(0))
        let sources = Shared<[ThreadRunLoop.Source0]>([])
        let ping = ThreadRunLoop.Source0 {
            sources.withLock { $0[1] }.signal()
            second.loop.wakeUp()
        }
        let pong = ThreadRunLoop.Source0 {
            let isOver = count.withLock { count in
                count += 1
                return count == rounds
            }
            if isOver { return done.open() }
            sources.withLock { $0[0] }.signal()
            first.loop.wakeUp()
        }
        sources.withLock { $0 = [ping, pong] }
        try first.loop.add(ping)
        try second.loop.add(pong)
        ping.signal()
        first.loop.wakeUp()
        #expect(done.wait(until: .patience), "\(count.withLock { $0 }) of \(rounds)")
        sources.withLock { $0 = [] }
    }

    @Test func `a wake-up that came during an inner run is the outer one's too`() {
        let trace = onThread {
            let (trace, loop) = (Trace(), ThreadRunLoop.current)
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            _ = try? loop.add(ThreadRunLoop.Source0 {}, forMode: "inner")
            _ = try? loop.add(
                ThreadRunLoop.Observer(.beforeWaiting, repeats: false) { _, _ in
                    Helper { try? loop.perform { trace("block") } }.join()
                    trace("\(run(loop, "inner", seconds: 0.001))")
                })
            _ = try? loop.add(ThreadRunLoop.Observer(.exit) { _, _ in trace("exit") })
            // Without its wake-up the outer run would find the block after its sleep only.
            _ = try? loop.add(ThreadRunLoop.Timer(after: .seconds(30)) { _ in trace("slept") })
            _ = try? loop.add(ThreadRunLoop.Observer(.beforeTimers) { _, _ in if trace.all.count > 1 { loop.stop() } })
            trace("\(run(loop, seconds: 20))")
            return trace.all
        }
        #expect(trace == ["timedOut", "block", "exit", "stopped"])
    }

    @Test func `stopping a thread ends an outer run that is about to sleep`() throws {
        let thread = try RunLoopThread { loop in
            _ = try? loop.add(ThreadRunLoop.Source0 {}, forMode: "inner")
        }
        let inside = Latch()
        let loop = thread.loop
        try loop.add(
            ThreadRunLoop.Observer(.beforeWaiting, repeats: false) { _, _ in
                inside.open()
                run(loop, "inner", seconds: 20)
            })
        loop.wakeUp()
        #expect(inside.wait(until: .patience))
        waitUntil { loop.currentMode == "inner" && loop.isWaiting }
        thread.stop()
        #expect(thread.join(before: .now + .seconds(10)))
    }

    @Test func `an old wake-up does not end a later sleep`() {
        let passes = onThread {
            let (loop, passes) = (ThreadRunLoop.current, Shared(0))
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            _ = try? loop.add(ThreadRunLoop.Observer(.beforeWaiting) { _, _ in passes.withLock { $0 += 1 } })
            for _ in 0..<3 {
                _ = try? loop.add(
                    ThreadRunLoop.Observer(.beforeWaiting, repeats: false) { _, _ in
                        Helper { loop.wakeUp() }.join()
                    })
                run(loop, seconds: 0)
            }
            run(loop, seconds: 0.02)
            return passes.withLock { $0 }
        }
        // One pass for each observer that was still to be told, at most, and the one that sleeps.
        #expect(passes <= 2)
    }

    // What is visible before a wake-up must be seen before the next sleep, at whatever point of a pass it comes.
    @Test func `work of four threads, a million pieces, is seen though only wake-ups tell of it`() throws {
        let (thread, work) = (try RunLoopThread(), Work())
        try thread.loop.add(ThreadRunLoop.Observer(.beforeSources) { _, _ in work.see() })
        // What comes from here on is seen in the next pass only: long enough for a last wake-up to come here often.
        try thread.loop.add(
            ThreadRunLoop.Observer(.beforeWaiting) { _, _ in
                let end = MonotonicInstant.now + .microseconds(10)
                while !end.hasPassed {}
            })
        let threads = 4
        let each = 1_000_000 / threads
        let missed = Shared(0)
        let helpers = (0..<threads).map { index in
            Helper {
                var sent = 0
                for burst in bursts(of: each, thread: index) {
                    for _ in 0..<burst {
                        work.post(index)
                        thread.loop.wakeUp()
                    }
                    sent += burst
                    let deadline = MonotonicInstant.patience
                    while work.seen(index) < sent {
                        guard !deadline.hasPassed else { return missed.withLock { $0 += sent - work.seen(index) } }
                        sched_yield()
                    }
                }
            }
        }
        for helper in helpers { helper.join() }
        #expect(missed.withLock { $0 } == 0)
        #expect((0..<threads).allSatisfy { work.seen($0) == each })
    }

    @Test func `signals that interrupt the sleep neither end a run nor lengthen it`() {
        let (result, passes, isInTime, hasGivenUp) = onThread {
            let (loop, passes) = (ThreadRunLoop.current, Shared(0))
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            _ = try? loop.add(ThreadRunLoop.Observer(.beforeWaiting) { _, _ in passes.withLock { $0 += 1 } })
            let storm = SignalStorm()
            let end = MonotonicInstant.now + .milliseconds(50)
            let result = run(loop, seconds: 0.05)
            let isInTime = end.hasPassed
            return (result, passes.withLock { $0 }, isInTime, storm.stop())
        }
        #expect(result == .timedOut)
        #expect(passes == 1)
        #expect(isInTime)
        #expect(!hasGivenUp)
    }
}

/// Pieces of work, counted for each of four threads.
private final class Work: Sendable {
    private let posts = (0..<4).map { _ in Count() }
    private let sights = (0..<4).map { _ in Count() }

    private final class Count: Sendable {
        let value = Atomic(0)
    }

    func post(_ thread: Int) { posts[thread].value.add(1, ordering: .releasing) }

    /// On the loop's thread.
    func see() {
        for (post, sight) in zip(posts, sights) {
            sight.value.store(post.value.load(ordering: .acquiring), ordering: .releasing)
        }
    }

    func seen(_ thread: Int) -> Int { sights[thread].value.load(ordering: .acquiring) }
}

/// Sends a signal to the thread that makes it, over and over.
private final class SignalStorm: Sendable {
    // One that nothing else uses.
    private static let signal = Int32(50)

    private let isOver = Shared(false)
    private let hasGivenUp = Shared(false)
    private let helper: Helper<Void>

    init() {
        // Without SA_RESTART: every system call that can be is interrupted.
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in }
        sigaction(Self.signal, &action, nil)
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, Self.signal)
        pthread_sigmask(SIG_UNBLOCK, &set, nil)
        let (thread, isOver, hasGivenUp) = (pthread_self(), isOver, hasGivenUp)
        helper = Helper {
            let deadline = MonotonicInstant.patience
            while !isOver.withLock({ $0 }) {
                guard !deadline.hasPassed else { return hasGivenUp.withLock { $0 = true } }
                pthread_kill(thread, Self.signal)
                // Leaves the thread time to go to sleep again.
                usleep(200)
            }
        }
    }

    /// Ends it; true when it had ended before, having gone on for as long as a run could be waited for.
    func stop() -> Bool {
        isOver.withLock { $0 = true }
        helper.join()
        return hasGivenUp.withLock { $0 }
    }
}
