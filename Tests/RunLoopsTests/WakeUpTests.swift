import Oracle
import RunLoops
import Testing

@Suite struct WakeUpTests {
    @Test func `a wake-up ends a sleep`() throws {
        let thread = try RunLoopThread()
        let woken = Gate()
        thread.loop.perform { thread.loop.add(.init(.afterWaiting) { _, _ in woken.open() }) }
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
        let done = Gate()
        let helpers = (0..<4).map { _ in
            Helper {
                for _ in 0..<50_000 {
                    thread.loop.perform {
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
        let (done, count) = (Gate(), Shared(0))
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
        first.loop.add(ping)
        second.loop.add(pong)
        ping.signal()
        first.loop.wakeUp()
        #expect(done.wait(until: .patience), "\(count.withLock { $0 }) of \(rounds)")
        sources.withLock { $0 = [] }
    }

    @Test func `a wake-up that came during an inner run is the outer one's too`() {
        let trace = onThread {
            let (trace, loop) = (Trace(), ThreadRunLoop.current)
            loop.add(ThreadRunLoop.Source0 {})
            loop.add(ThreadRunLoop.Source0 {}, forMode: "inner")
            loop.add(
                ThreadRunLoop.Observer(.beforeWaiting, repeats: false) { _, _ in
                    Helper { loop.perform { trace("block") } }.join()
                    trace("\(run(loop, "inner", seconds: 0.001))")
                })
            loop.add(ThreadRunLoop.Observer(.exit) { _, _ in trace("exit") })
            // Without its wake-up the outer run would find the block after its sleep only.
            loop.add(ThreadRunLoop.Timer(after: .seconds(30)) { _ in trace("slept") })
            loop.add(ThreadRunLoop.Observer(.beforeTimers) { _, _ in if trace.all.count > 1 { loop.stop() } })
            trace("\(run(loop, seconds: 20))")
            return trace.all
        }
        #expect(trace == ["timedOut", "block", "exit", "stopped"])
    }

    @Test func `stopping a thread ends an outer run that is about to sleep`() throws {
        let thread = try RunLoopThread { loop in
            loop.add(ThreadRunLoop.Source0 {}, forMode: "inner")
        }
        let inside = Gate()
        let loop = thread.loop
        loop.add(
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
            loop.add(ThreadRunLoop.Source0 {})
            loop.add(ThreadRunLoop.Observer(.beforeWaiting) { _, _ in passes.withLock { $0 += 1 } })
            for _ in 0..<3 {
                loop.add(
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
}
