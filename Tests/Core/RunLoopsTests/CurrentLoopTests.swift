import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

/// Which loops there are, and what they say of themselves.
@Suite(.ownThread) struct CurrentLoopTests {
    @Test func `each thread has one loop, and no two the same`() {
        let loops = (0..<4).map { _ in
            onThread {
                let loop = ThreadRunLoop.current
                #expect(loop.isCurrent)
                #expect(loop === ThreadRunLoop.current)
                #expect(!ThreadRunLoop.main.isCurrent)
                #expect(loop !== ThreadRunLoop.main)
                return loop
            }
        }
        #expect(Set(loops.map(ObjectIdentifier.init)).count == 4)
        #expect(!loops.contains { $0.isCurrent })
        #expect(onThread { ThreadRunLoop.main } === ThreadRunLoop.main)
    }

    @Test func `a run ends with a stop, or with the last item`() throws {
        let ended = try onThread {
            Result {
                let loop = ThreadRunLoop.current
                let trace = Trace()
                // Returns as CFRunLoopRun does, although a source was handled before.
                let source = ThreadRunLoop.Source0 { try? loop.perform { trace("block") } }
                try loop.add(source)
                source.signal()
                try loop.add(ThreadRunLoop.Timer(after: .milliseconds(5)) { _ in loop.stop() })
                try loop.run()
                trace("stopped")
                try loop.add(ThreadRunLoop.Timer(after: .milliseconds(5)) { _ in source.invalidate() })
                try loop.run()
                trace("finished")
                try loop.run()
                return trace.all
            }
        }.get()
        #expect(ended == ["block", "stopped", "finished"])
    }

    @Test func `other threads see a loop sleep, and in which mode`() {
        let made = Shared<ThreadRunLoop?>(nil)
        let helper = Helper {
            let loop = ThreadRunLoop.current
            _ = try? loop.add(ThreadRunLoop.Source0 {}, forMode: "other")
            made.withLock { $0 = loop }
            run(loop, "other", seconds: 20)
        }
        waitUntil { made.withLock { $0?.isWaiting ?? false } }
        let loop = made.withLock { $0 }
        #expect(loop?.isWaiting == true)
        #expect(loop?.currentMode == "other")
        #expect(loop?.allModes == [.default, "other"])
        loop?.stop()
        helper.join()
        #expect(loop?.isWaiting == false)
        #expect(loop?.currentMode == nil)
    }
}
