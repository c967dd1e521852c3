import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct BlockTests {
    // CFRunLoop hides the blocks of other modes while it runs those of one; the inner run would wait for ever.
    @Test func `a run inside a block performs the blocks of its own mode that were queued before`() {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            try? loop.perform {
                trace("first")
                run(loop, "inner", seconds: 0)
                trace("first ends")
            }
            try? loop.perform(inModes: ["inner"]) { trace("inner") }
            run(loop, seconds: 0)
            return trace.all
        }
        #expect(trace == ["first", "inner", "first ends"])
    }

    @Test func `blocks of one thread run in the order they were queued`() throws {
        let thread = try RunLoopThread()
        let (seen, done) = (Shared<[Int]>([]), Latch())
        for index in 0..<1_000 {
            try thread.loop.perform {
                seen.withLock { $0.append(index) }
                if index == 999 { done.open() }
            }
        }
        #expect(done.wait(until: .patience))
        #expect(seen.withLock { $0 } == Array(0..<1_000))
    }
}
