import Oracle
import RunLoops
import Testing

@Suite struct ThreadEndTests {
    @Test func `the thread's end takes every item out, and tells the Source0s`() {
        let trace = Trace()
        let loop = onThread {
            let loop = ThreadRunLoop.current
            let source = ThreadRunLoop.Source0(
                cancel: { loop, mode in trace("left \(mode) \(loop.isCurrent) \(loop === ThreadRunLoop.current)") }
            ) {}
            loop.add(source)
            loop.add(source, forMode: "other")
            return loop
        }
        #expect(trace.all.sorted() == ["left default true true", "left other true true"])
        let late = ThreadRunLoop.Source0 {}
        loop.add(late)
        #expect(!loop.contains(late))
    }

    @Test func `threads that end at once each take their items out`() {
        let count = Shared(0)
        for _ in 0..<20 {
            let helpers = (0..<8).map { _ in
                Helper {
                    ThreadRunLoop.current.add(
                        ThreadRunLoop.Source0(cancel: { _, _ in count.withLock { $0 += 1 } }) {})
                }
            }
            for helper in helpers { helper.join() }
        }
        #expect(count.withLock { $0 } == 160)
    }

    @Test func `a block that was never run is let go of, and may call back in`() {
        let isGone = Shared(false)
        let loop = onThread {
            let loop = ThreadRunLoop.current
            let last = AtLast {
                loop.stop()
                isGone.withLock { $0 = true }
            }
            loop.perform { withExtendedLifetime(last) {} }
            return loop
        }
        #expect(isGone.withLock { $0 })
        loop.perform { Issue.record("ran after the end") }
        loop.wakeUp()
    }

    @Test func `a source can join another loop`() throws {
        let (event, done) = (madeEvent(), Gate())
        let source = ThreadRunLoop.Source1(descriptor: event.descriptor) { _ in
            event.clear()
            done.open()
            return true
        }
        onThread { add(source, to: .current) }
        #expect(source.isValid)
        let thread = try RunLoopThread()
        try thread.loop.add(source)
        event.raise()
        #expect(done.wait(until: .patience))
    }
}
