import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

/// Closures that are not `@Sendable`, written as a user would.
@Suite(.ownThread) struct LocalClosureTests {
    @Test func `any closure can be a handler on the loop's own thread`() {
        let calls = onThread {
            let loop = ThreadRunLoop.current
            var calls: [String] = []
            loop.addObserver(.entry, repeats: false) { _, activity in calls.append("\(activity)") }
            try? loop.perform(ThreadRunLoop.local { calls.append("block") })
            let source = ThreadRunLoop.Source0(perform: ThreadRunLoop.local { calls.append("source") })
            _ = try? loop.add(source)
            source.signal()
            loop.addTimer(after: .zero) { timer in
                calls.append("timer \(timer.repeats)")
                loop.stop()
            }
            run(loop, seconds: 20)
            return calls
        }
        #expect(calls == ["[entry]", "block", "source", "timer false"])
    }

    @Test func `a timer may begin at once, or later than its interval`() {
        let firings = onThread {
            let loop = ThreadRunLoop.current
            var firings: [String] = []
            loop.addTimer(every: .seconds(1000)) { timer in
                firings.append("at once, repeats \(timer.repeats)")
            }
            loop.addTimer(after: .milliseconds(100), every: .milliseconds(1)) { timer in
                firings.append("later")
                if firings.count == 4 { loop.stop() }
            }
            run(loop, seconds: 20)
            return firings
        }
        #expect(firings == ["at once, repeats true", "later", "later", "later"])
    }

    @Test func `what a local closure has captured is let go of on its thread, wherever its item ends`() throws {
        let thread = try RunLoopThread()
        let (last, ended) = (Shared<Bool?>(nil), Latch())
        let loop = thread.loop
        // The item's last reference is let go of here.
        var timer: ThreadRunLoop.Timer? = try thread.run {
            let witness = AtLast {
                last.withLock { $0 = loop.isCurrent }
                ended.open()
            }
            return ThreadRunLoop.Timer(
                after: .seconds(100), handler: ThreadRunLoop.local { _ in withExtendedLifetime(witness) {} })
        }
        timer?.invalidate()
        timer = nil
        #expect(ended.wait(until: .patience))
        #expect(last.withLock { $0 } == true)
    }

    @Test func `what a local closure has captured ends with its thread at the latest`() {
        let isGone = Shared(false)
        let timer = onThread {
            let witness = AtLast { isGone.withLock { $0 = true } }
            return ThreadRunLoop.Timer(
                after: .seconds(100), handler: ThreadRunLoop.local { _ in withExtendedLifetime(witness) {} })
        }
        withExtendedLifetime(timer) {}
        _ = consume timer
        #expect(isGone.withLock { $0 })
    }
}
