import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct PerformRequestTests {
    @Test func `requests are called once, by order, in one of their modes`() {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            for (number, order) in [3, -1, 3, 0].enumerated() {
                _ = try? loop.perform(order: order, inModes: [.default, "other"]) { trace("\(number) of \(order)") }
            }
            _ = try? loop.perform(order: -9, inModes: ["other"]) { trace("other") }
            trace("\(run(loop, seconds: 20))")
            trace("\(run(loop, seconds: 20))")
            run(loop, "other", seconds: 20)
            return trace.all
        }
        #expect(trace == ["1 of -1", "3 of 0", "0 of 3", "2 of 3", "finished", "finished", "other"])
    }

    @Test func `a run that returns when a source was handled calls all requests that wait, or one source`() throws {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            for order in [-1, 2] {
                let source = ThreadRunLoop.Source0(order: order) { trace("source \(order)") }
                _ = try? loop.add(source)
                source.signal()
                _ = try? loop.perform(order: 3) { source.invalidate() }
            }
            _ = try? loop.perform(order: 1) {
                trace("1")
                _ = try? loop.perform(order: 0) { trace("later") }
            }
            _ = try? loop.perform(order: 4) { trace("4") }
            for _ in 0..<4 { trace("\(run(loop, seconds: 20, returning: true))") }
            return trace.all
        }
        let passes = [
            ["source -1", "handledSource"], ["1", "4", "handledSource"], ["later", "handledSource"], ["finished"],
        ]
        #expect(trace == passes.flatMap(\.self))
    }

    @Test func `a request from another thread wakes the loop`() throws {
        let (thread, now, later) = (try RunLoopThread(), Latch(), Latch())
        waitUntil { thread.loop.isWaiting }
        try thread.loop.perform(order: 0) { now.open() }
        #expect(now.wait(until: .patience))
        waitUntil { thread.loop.isWaiting }
        try thread.loop.perform(after: .milliseconds(1)) { later.open() }
        #expect(later.wait(until: .patience))
    }

    @Test func `a request that was called throws nothing, though its loop ends before it is in all its modes`() throws {
        let modes = [.default] + (0..<500).map { ThreadRunLoop.Mode("\($0)") }
        for isDelayed in [false, true] {
            for _ in 0..<20 {
                let (thread, wasCalled) = (try RunLoopThread(), Latch())
                let body: @Sendable () -> Void = {
                    wasCalled.open()
                    thread.stop()
                }
                waitUntil { thread.loop.isWaiting }
                var hasThrown = false
                do {
                    if isDelayed {
                        try thread.loop.perform(after: .zero, inModes: modes, body)
                    } else {
                        try thread.loop.perform(order: 0, inModes: modes, body)
                    }
                } catch {
                    hasThrown = true
                }
                // Called, or refused, and not both.
                if hasThrown { thread.stop() }
                #expect(thread.join(before: .patience))
                #expect(wasCalled.isOpen != hasThrown)
            }
        }
    }

    @Test func `delays are kept, and one of nothing comes in the next pass`() {
        let trace = onThread {
            let (loop, trace, start) = (ThreadRunLoop.current, Trace(), MonotonicInstant.now)
            // Its delay begins first, and the thread may be held up before that of the middle one begins.
            let late = Duration.milliseconds(500)
            _ = try? loop.perform(after: late) { trace("late \((start + late).hasPassed)") }
            _ = try? loop.perform(after: .zero) { trace("zero") }
            _ = try? loop.perform(after: .seconds(-1)) { trace("past") }
            _ = try? loop.perform(after: .milliseconds(5), inModes: [.common, "other"]) { trace("middle") }
            run(loop, seconds: 20)
            run(loop, "other", seconds: 20)
            return trace.all
        }
        #expect(trace == ["zero", "past", "middle", "late true"])
    }

    @Test(arguments: [false, true])
    func `a cancelled request is not called, and leaves its modes`(_ isDelayed: Bool) {
        let (isPending, trace) = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            let request = loop.made(isDelayed) { trace("called") }
            let isPending = [request.isPending]
            request.cancel()
            request.cancel()
            trace("\(run(loop, seconds: 20))")
            return (isPending + [request.isPending], trace.all)
        }
        #expect(isPending == [true, false])
        #expect(trace == ["finished"])
    }

    @Test(arguments: [false, true])
    func `a request that is being called, or was, is over`(_ isDelayed: Bool) {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            let kept = Shared<ThreadRunLoop.PerformRequest?>(nil)
            let request = loop.made(isDelayed) {
                let request = kept.withLock { $0 }
                trace("pending \(request?.isPending ?? true)")
                request?.cancel()
                trace("\(run(loop, seconds: 20))")
            }
            kept.withLock { $0 = request }
            run(loop, seconds: 20)
            trace("pending \(request.isPending)")
            return trace.all
        }
        #expect(trace == ["pending false", "finished", "pending false"])
    }

    @Test func `a request cancelled by another thread is called once or never, and not later`() throws {
        let thread = try RunLoopThread()
        let counts = Shared([Int](repeating: 0, count: 500))
        let early = try (0..<500).map { index in
            let request = thread.loop.made(index % 2 == 0) { counts.withLock { $0[index] += 1 } }
            if index % 3 > 0 { thread.loop.wakeUp() }
            request.cancel()
            #expect(!request.isPending)
            // What had begun is done.
            return try thread.loop.performAndWait { counts.withLock { $0[index] } }
        }
        try thread.loop.performAndWait {}
        #expect(counts.withLock { $0 } == early)
        #expect(early.allSatisfy { $0 <= 1 })
    }

    @Test func `all requests of an owner are cancelled, in this loop only`() throws {
        let other = try RunLoopThread()
        let called = Latch()
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            let (mine, stranger) = (Owner(), Owner())
            _ = try? loop.perform(order: 0, owner: mine) { trace("mine") }
            _ = try? loop.perform(after: .zero, inModes: ["other"], owner: mine) { trace("mine, later") }
            _ = try? loop.perform(order: 0, owner: stranger) { trace("stranger") }
            _ = try? loop.perform(order: 0) { trace("nobody") }
            _ = try? other.loop.perform(after: .milliseconds(1), owner: mine) { called.open() }
            loop.cancelPerformRequests(of: mine)
            loop.cancelPerformRequests(of: mine)
            run(loop, seconds: 20)
            run(loop, "other", seconds: 20)
            // The other loop's request needs it to be there.
            #expect(called.wait(until: .patience))
            withExtendedLifetime((mine, stranger)) {}
            return trace.all
        }
        #expect(trace == ["stranger", "nobody"])
    }

    @Test func `requests die with their owner, and not by one that took its address`() {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            for _ in 0..<100 {
                var owner: Owner? = Owner()
                let orphan = made { try loop.perform(order: 0, owner: owner) { trace("orphan") } }
                owner = nil
                let successor = Owner()
                let request = made { try loop.perform(after: .seconds(100), owner: successor) {} }
                #expect(!orphan.isPending)
                #expect(request.isPending)
                loop.cancelPerformRequests(of: Owner())
                #expect(request.isPending)
                loop.cancelPerformRequests(of: successor)
                #expect(!request.isPending)
            }
            trace("\(run(loop, seconds: 20))")
            return trace.all
        }
        #expect(trace == ["finished"])
    }

    @Test(arguments: [false, true])
    func `the end of the thread ends its requests, and lets go of their closures`(_ isDelayed: Bool) {
        let isGone = Shared(false)
        let (loop, request) = onThread {
            let loop = ThreadRunLoop.current
            let last = AtLast { isGone.withLock { $0 = true } }
            return (loop, loop.made(isDelayed) { withExtendedLifetime(last) {} })
        }
        #expect(isGone.withLock { $0 })
        #expect(!request.isPending)
        request.cancel()
        #expect(throws: RunLoopError.loopEnded) {
            try loop.request(isDelayed) { Issue.record("called after the end") }
        }
        loop.cancelPerformRequests(of: Owner())
    }

    @Test(arguments: [false, true])
    func `a closure is let go of when it was called, though its request is kept`(_ isDelayed: Bool) {
        let isGone = onThread {
            let (loop, isGone) = (ThreadRunLoop.current, Shared(false))
            let last = AtLast { isGone.withLock { $0 = true } }
            let request = loop.made(isDelayed) { [last] in withExtendedLifetime(last) {} }
            _ = consume last
            run(loop, seconds: 20)
            return withExtendedLifetime(request) { isGone.withLock { $0 } }
        }
        #expect(isGone)
    }

    @Test func `what a request's closure has captured may cancel it when it is let go of`() {
        onThread {
            let kept = Shared<ThreadRunLoop.PerformRequest?>(nil)
            let last = AtLast { kept.withLock { $0 }?.cancel() }
            let request = made {
                try ThreadRunLoop.current.perform(order: 0) { [last] in withExtendedLifetime(last) {} }
            }
            kept.withLock { $0 = request }
            request.cancel()
        }
    }
}

private final class Owner: Sendable {}

extension ThreadRunLoop {
    fileprivate func made(_ isDelayed: Bool, _ body: @escaping @Sendable () -> Void) -> PerformRequest {
        RunLoopsTests.made { try request(isDelayed, body) }
    }

    fileprivate func request(
        _ isDelayed: Bool, _ body: @escaping @Sendable () -> Void
    ) throws(RunLoopError) -> PerformRequest {
        isDelayed ? try perform(after: .milliseconds(1), body) : try perform(order: 0, body)
    }
}
