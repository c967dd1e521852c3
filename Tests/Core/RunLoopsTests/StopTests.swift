import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct StopTests {
    @Test func `a stop from another thread ends a sleep`() {
        let result = onThread {
            let loop = ThreadRunLoop.current
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            let helper = Helper {
                waitUntil { loop.isWaiting }
                loop.stop()
            }
            let result = run(loop, seconds: 20)
            helper.join()
            return result
        }
        #expect(result == .stopped)
    }

    @Test func `a stop before the sleep is seen whenever it comes`() {
        let results = onThread {
            let loop = ThreadRunLoop.current
            _ = try? loop.add(ThreadRunLoop.Source0 {})
            return (0..<300).map { _ in
                let begun = Shared(false)
                _ = try? loop.add(
                    ThreadRunLoop.Observer(.entry, repeats: false) { _, _ in begun.withLock { $0 = true } })
                let helper = Helper {
                    while !begun.withLock({ $0 }) {}
                    loop.stop()
                }
                defer { helper.join() }
                return run(loop, seconds: 20)
            }
        }
        #expect(results.allSatisfy { $0 == .stopped })
    }
}
