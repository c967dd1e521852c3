import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct LoopCallTests {
    private struct Refusal: Error, Equatable {}

    @Test func `a thread waits for what a closure returns on another`() throws {
        let thread = try RunLoopThread()
        let isThere = onThread {
            waitUntil { thread.loop.isWaiting }
            return try? thread.loop.performAndWait { thread.loop.isCurrent }
        }
        #expect(isThere == true)
    }

    @Test func `on its own thread a closure is called at once`() {
        let trace = onThread {
            let (loop, trace) = (ThreadRunLoop.current, Trace())
            trace("\((try? loop.performAndWait(inModes: ["never run"]) { loop.isCurrent }) ?? false)")
            return trace.all
        }
        #expect(trace == ["true"])
    }

    @Test func `the main thread has its loop before it asks for the current one`() { #expect(helper("main") == 0) }

    @Test func `a closure waits for one of its modes`() throws {
        let (thread, inside) = (
            try RunLoopThread { _ = try? $0.add(ThreadRunLoop.Source0 {}, forMode: "other") }, Latch()
        )
        let loop = thread.loop
        let mode = Shared<ThreadRunLoop.Mode?>(nil)
        let helper = Helper {
            let answer = try? loop.performAndWait(inModes: ["other"]) { loop.currentMode }
            mode.withLock { $0 = answer ?? nil }
            inside.open()
        }
        let isOver = Shared(false)
        try loop.perform {
            while !isOver.withLock({ $0 }) { run(loop, "other", seconds: 0.001) }
        }
        #expect(inside.wait(until: .patience))
        isOver.withLock { $0 = true }
        helper.join()
        #expect(mode.withLock { $0 } == "other")
    }

    @Test func `a closure for no mode in particular is called in every common mode`() async throws {
        let thread = try await RunLoopThread()
        let (isOver, isInside) = (Shared(false), Latch())
        try thread.loop.addCommonMode("inner")
        try thread.loop.add(ThreadRunLoop.Source0 {}, forMode: "inner")
        try thread.loop.perform {
            isInside.open()
            while !isOver.withLock({ $0 }) { run(thread.loop, "inner", seconds: 0.001) }
        }
        #expect(onThread { isInside.wait(until: .patience) })
        #expect(try await thread.loop.execute { thread.loop.currentMode } == "inner")
        #expect(try await thread.run { thread.loop.currentMode } == "inner")
        let waited = onThread {
            [try? thread.loop.performAndWait { thread.loop.currentMode }, try? thread.run { thread.loop.currentMode }]
        }
        #expect(waited == ["inner", "inner"])
        isOver.withLock { $0 = true }
    }

    @Test func `a loop that has ended is an error at once`() async {
        let loop = onThread { ThreadRunLoop.current }
        let error = onThread { Self.waitError(loop) }
        #expect(error == .loopEnded)
        await #expect(throws: RunLoopError.loopEnded) { try await loop.execute { 1 } }
    }

    @Test func `a loop that ends first wakes those who wait`() async throws {
        let (made, leave) = (Shared<ThreadRunLoop?>(nil), Latch())
        let owner = Helper {
            // Its loop is never run.
            made.withLock { $0 = ThreadRunLoop.current }
            _ = leave.wait(until: .patience)
        }
        await waitUntil { made.withLock { $0 } != nil }
        let loop = try #require(made.withLock { $0 })
        let (waits, error) = (Shared(0), Shared<[RunLoopError?]>([]))
        let helpers = (0..<4).map { _ in
            Helper {
                waits.withLock { $0 += 1 }
                let mine = Self.waitError(loop)
                error.withLock { $0.append(mine) }
            }
        }
        let suspended = Task { try await loop.execute { 1 } }
        await waitUntil { waits.withLock { $0 } == 4 }
        leave.open()
        await #expect(throws: RunLoopError.loopEnded) { try await suspended.value }
        for helper in helpers { helper.join() }
        owner.join()
        #expect(error.withLock { $0 } == [RunLoopError?](repeating: .loopEnded, count: 4))
    }

    @Test func `a task waits for what a closure returns or throws`() async throws {
        let thread = try await RunLoopThread()
        #expect(try await thread.loop.execute { thread.loop.isCurrent })
        await #expect(throws: Refusal()) { try await thread.loop.execute { throw Refusal() } }
    }

    @Test func `a cancelled task takes its closure back unless it has begun`() async throws {
        let (thread, block, begun) = (try await RunLoopThread(), Latch(), Latch())
        let loop = thread.loop
        let first = Task {
            try await loop.execute {
                begun.open()
                _ = block.wait(until: .patience)
                return 1
            }
        }
        await Task.detached { _ = begun.waited }.value
        let second = Task { try await loop.execute { Issue.record("called though cancelled") } }
        first.cancel()
        second.cancel()
        await #expect(throws: CancellationError.self) { try await second.value }
        block.open()
        #expect(try await first.value == 1)
        let third = Task {
            while !Task.isCancelled { await Task.yield() }
            try await loop.execute { Issue.record("called though cancelled before") }
        }
        third.cancel()
        await #expect(throws: CancellationError.self) { try await third.value }
    }

    private static func waitError(_ loop: ThreadRunLoop) -> RunLoopError? {
        do throws(RunLoopError) {
            try loop.performAndWait {}
            return nil
        } catch {
            return error
        }
    }
}

extension Latch {
    fileprivate var waited: Bool { wait(until: .patience) }
}
