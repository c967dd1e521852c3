import Oracle
import RunLoops
import Testing

@Suite struct RunLoopThreadTests {
    @Test func `a thread without work stays until it is stopped`() throws {
        let thread = try RunLoopThread()
        waitUntil { thread.loop.isWaiting }
        #expect(!thread.join(before: .now + .milliseconds(5)))
        thread.stop()
        #expect(thread.join(before: .patience))
        #expect(thread.join(before: .now))
    }

    @Test func `stopping its loop does not end a thread`() throws {
        let thread = try RunLoopThread()
        waitUntil { thread.loop.isWaiting }
        thread.loop.stop()
        let ran = Gate()
        thread.loop.perform { ran.open() }
        #expect(ran.wait(until: .patience))
    }

    @Test func `a thread that was stopped before its loop ran ends`() throws {
        for _ in 0..<50 {
            let thread = try RunLoopThread()
            thread.stop()
            #expect(thread.join(before: .patience))
        }
    }

    @Test func `its body runs before the items that others add`() throws {
        let trace = Trace()
        let thread = try RunLoopThread { loop in trace("body \(loop.isCurrent)") }
        let ran = Gate()
        thread.loop.perform {
            trace("block")
            ran.open()
        }
        #expect(ran.wait(until: .patience))
        #expect(trace.all == ["body true", "block"])
    }

    @Test func `a thread cannot wait for itself`() throws {
        let thread = try RunLoopThread()
        let (answer, asked) = (Shared<Bool?>(nil), Gate())
        thread.loop.perform {
            answer.withLock { $0 = thread.join() }
            asked.open()
        }
        #expect(asked.wait(until: .patience))
        #expect(answer.withLock { $0 } == false)
        thread.stop()
        #expect(thread.join(before: .patience))
    }

    @Test func `letting go of a thread ends it, even on itself`() throws {
        let ended = Gate()
        let kept = Shared<RunLoopThread?>(nil)
        let thread = try RunLoopThread()
        kept.withLock { $0 = thread }
        thread.loop.add(ThreadRunLoop.Source0(cancel: { _, _ in ended.open() }) {})
        thread.loop.perform { kept.withLock { $0 = nil } }
        _ = consume thread
        #expect(ended.wait(until: .patience))
    }
}
