import Oracle
import RunLoops
import TestSupport
import Testing

/// Lives on a loop's thread.
private actor Resident {
    nonisolated let loop: ThreadRunLoop
    private(set) var calls = 0

    init(_ loop: ThreadRunLoop) { self.loop = loop }

    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    var isOnLoop: Bool { loop.isCurrent }

    func call() { calls += 1 }

    func callOften(_ other: Resident, _ count: Int) async {
        for _ in 0..<count { await other.call() }
    }

    func open(_ latch: Latch) { latch.open() }

    nonisolated func callFromCallback() { assumeIsolated { $0.calls += 1 } }

    func sleep() async throws -> Bool {
        try await Task.sleep(for: .milliseconds(1))
        return loop.isCurrent
    }
}

@Suite struct LoopExecutorTests {
    @Test func `an actor lives on a loop's thread`() async throws {
        let thread = try await RunLoopThread()
        let resident = Resident(thread.loop)
        #expect(await resident.isOnLoop)
        #expect(try await resident.sleep())
        await resident.call()
        #expect(await resident.calls == 1)
    }

    @Test func `a task that prefers a loop is on it, and comes back to it`() async throws {
        let thread = try await RunLoopThread()
        let places = await withTaskExecutorPreference(thread.loop.taskExecutor) {
            var places = [thread.loop.isCurrent]
            await Task.yield()
            places.append(thread.loop.isCurrent)
            try? await Task.sleep(for: .milliseconds(1))
            places.append(thread.loop.isCurrent)
            async let child = thread.loop.isCurrent
            places.append(await child)
            return places
        }
        #expect(places == [true, true, true, true])
    }

    @Test func `a callback of the loop is isolated to the actors that live there`() async throws {
        let thread = try await RunLoopThread()
        let resident = Resident(thread.loop)
        let called = Latch()
        try thread.loop.add(
            ThreadRunLoop.Timer(after: .zero) { _ in
                resident.callFromCallback()
                called.open()
            })
        #expect(called.wait(until: .patience))
        #expect(await resident.calls == 1)
    }

    @Test func `a hop between two actors of one loop makes no pass`() async throws {
        let thread = try await RunLoopThread()
        let (first, second) = (Resident(thread.loop), Resident(thread.loop))
        let passes = Shared(0)
        await first.call()
        try thread.loop.add(ThreadRunLoop.Observer(.beforeTimers) { _, _ in passes.withLock { $0 += 1 } })
        await first.callOften(second, 10_000)
        #expect(passes.withLock { $0 } < 10)
        #expect(await second.calls == 10_000)
    }

    @Test func `tasks of a loop that sleep together all go on`() async throws {
        let thread = try await RunLoopThread()
        let resident = Resident(thread.loop)
        await withTaskGroup { group in
            for _ in 0..<1000 {
                group.addTask {
                    await Task.yield()
                    await resident.call()
                }
            }
        }
        #expect(await resident.calls == 1000)
    }

    @Test func `work for a loop that has ended is done elsewhere, in order`() async throws {
        let thread = try await RunLoopThread()
        let resident = Resident(thread.loop)
        await resident.call()
        thread.stop()
        #expect(try await thread.join(before: .patience))
        await resident.call()
        #expect(throws: RunLoopError.loopEnded) {
            try resident.loop.perform { Issue.record("performed by a loop that has ended") }
        }
        #expect(await resident.calls == 2)
        #expect(await resident.isOnLoop == false)
    }

    @Test func `what the work for an ended loop asks for is done, too`() async throws {
        let thread = try await RunLoopThread()
        thread.stop()
        #expect(try await thread.join(before: .patience))
        let isDone = Latch()
        let task = Task(executorPreference: thread.loop.taskExecutor) {
            for _ in 0..<100 { await Task.yield() }
            isDone.open()
        }
        #expect(await waitUntil { isDone.wait(until: .distantPast) })
        _ = task
    }

    @Test func `work that waits when its loop ends is done elsewhere`() async throws {
        let thread = try await RunLoopThread()
        let resident = Resident(thread.loop)
        let (isHeld, mayEnd) = (Latch(), Latch())
        try thread.loop.perform {
            isHeld.open()
            _ = mayEnd.wait(until: .patience)
        }
        #expect(isHeld.wait(until: .patience))
        thread.stop()
        let tasks = (0..<10).map { _ in Task { await resident.call() } }
        mayEnd.open()
        for task in tasks { await task.value }
        #expect(await resident.calls == 10)
    }

    @Test func `while a loop ends, its actors are nowhere else`() async throws {
        let thread = try await RunLoopThread()
        let resident = Resident(thread.loop)
        let (isElsewhere, isEverAtBoth) = (Latch(), Shared(true))
        try thread.loop.add(
            ThreadRunLoop.Source0(
                cancel: { _, _ in
                    resident.assumeIsolated { resident in
                        Task { resident.open(isElsewhere) }
                        // Not before this has returned.
                        let isAtBoth = isElsewhere.wait(until: .now + .milliseconds(200))
                        isEverAtBoth.withLock { $0 = isAtBoth }
                    }
                }, perform: {}))
        thread.stop()
        #expect(try await thread.join(before: .patience))
        #expect(isElsewhere.wait(until: .patience))
        #expect(isEverAtBoth.withLock { $0 } == false)
    }
}
