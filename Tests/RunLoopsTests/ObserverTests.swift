import Oracle
import RunLoops
import Testing

@Suite struct ObserverTests {
    @Test func `an observer is one loop's until it is taken out`() throws {
        let (first, second) = (try RunLoopThread(), try RunLoopThread())
        let observer = ThreadRunLoop.Observer(.entry) { _, _ in }
        first.loop.add(observer)
        second.loop.add(observer)
        #expect(!second.loop.contains(observer))
        first.loop.remove(observer)
        second.loop.add(observer)
        #expect(second.loop.contains(observer))
        observer.invalidate()
        first.loop.add(observer)
        #expect(!first.loop.contains(observer) && !second.loop.contains(observer))
    }

    @Test func `an observer is not told of a run inside its own callout`() {
        let count = onThread {
            let (loop, count) = (ThreadRunLoop.current, Shared(0))
            loop.add(ThreadRunLoop.Source0 {})
            loop.add(
                ThreadRunLoop.Observer(.entry) { _, _ in
                    count.withLock { $0 += 1 }
                    run(loop, seconds: 0)
                })
            run(loop, seconds: 0)
            return count.withLock { $0 }
        }
        #expect(count == 1)
    }
}
