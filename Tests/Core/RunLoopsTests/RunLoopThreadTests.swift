import Glibc
import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct RunLoopThreadTests {
    @Test func `a thread without work stays until it is stopped`() throws {
        let thread = try RunLoopThread()
        waitUntil { thread.loop.isWaiting }
        #expect(!thread.join(before: .now + .milliseconds(5)))
        thread.stop()
        #expect(thread.join(before: .patience))
        #expect(thread.join(before: .now))
    }

    @Test func `a task waits for a thread's end, or for a deadline`() async throws {
        let (thread, inside, leave) = (try await RunLoopThread(), Latch(), Latch())
        try thread.loop.perform {
            inside.open()
            #expect(leave.wait(until: .patience))
        }
        #expect(onThread { inside.wait(until: .patience) })
        thread.stop()
        #expect(try await !thread.join(before: .now + .milliseconds(5)))
        let waiting = (0..<10).map { _ in Task { try await thread.join() } }
        let cancelled = Task { try await thread.join(before: .patience) }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        leave.open()
        for task in waiting { #expect(try await task.value) }
        #expect(try await thread.join(before: .now))
        #expect(onThread { thread.join(before: .now) })
    }

    @Test func `a task on a thread waits for the thread's end`() async throws {
        let thread = try await RunLoopThread()
        let hasEnded = try await withTaskExecutorPreference(thread.loop.taskExecutor) {
            thread.stop()
            return try await thread.join(before: .patience)
        }
        #expect(hasEnded)
    }

    @Test func `a thread that a task starts has its loop, or is an error`() async throws {
        let trace = Trace()
        let thread = try await RunLoopThread(name: "started") { loop in trace("\(loop.isCurrent)") }
        try await thread.run { #expect(trace.all == ["true"]) }
        await #expect(throws: RunLoopError.invalidStackSize(1, minimum: RunLoopThread.minimumStackSize)) {
            try await RunLoopThread(stackSize: 1)
        }
        let inCancelled = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await RunLoopThread()
        }
        let other = try await inCancelled.value
        #expect(try await other.run { 7 } == 7)
    }

    @Test func `stopping its loop does not end a thread`() throws {
        let thread = try RunLoopThread()
        waitUntil { thread.loop.isWaiting }
        thread.loop.stop()
        let ran = Latch()
        try thread.loop.perform { ran.open() }
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
        let ran = Latch()
        try thread.loop.perform {
            trace("block")
            ran.open()
        }
        #expect(ran.wait(until: .patience))
        #expect(trace.all == ["body true", "block"])
    }

    @Test func `a thread cannot wait for itself`() throws {
        let thread = try RunLoopThread()
        let (answer, asked) = (Shared<Bool?>(nil), Latch())
        try thread.loop.perform {
            answer.withLock { $0 = thread.join() }
            asked.open()
        }
        #expect(asked.wait(until: .patience))
        #expect(answer.withLock { $0 } == false)
        thread.stop()
        #expect(thread.join(before: .patience))
    }

    @Test func `letting go of a thread ends it, even on itself`() throws {
        let ended = Latch()
        let kept = Shared<RunLoopThread?>(nil)
        let thread = try RunLoopThread()
        kept.withLock { $0 = thread }
        try thread.loop.add(ThreadRunLoop.Source0(cancel: { _, _ in ended.open() }) {})
        try thread.loop.perform { kept.withLock { $0 = nil } }
        _ = consume thread
        #expect(ended.wait(until: .patience))
    }

    @Test func `a closure's value or error comes back to the thread that waits`() throws {
        let thread = try RunLoopThread()
        #expect(try thread.run { thread.loop.isCurrent })
        #expect(throws: Refusal()) { try thread.run { throw Refusal() } }
        // On itself at once.
        #expect(try thread.run { (try? thread.run { 7 }) == 7 })
    }

    @Test func `a closure's value or error comes back to the task that waits`() async throws {
        let thread = try await RunLoopThread()
        #expect(try await thread.run { thread.loop.isCurrent })
        await #expect(throws: Refusal()) { try await thread.run { throw Refusal() } }
    }

    @Test func `a closure given to a stopped thread is refused, even while it has not ended`() async throws {
        let (thread, inside, leave) = (try await RunLoopThread(), Latch(), Latch())
        try thread.loop.perform {
            inside.open()
            // It is not the thread's end that refuses.
            #expect(leave.wait(until: .patience))
        }
        #expect(onThread { inside.wait(until: .patience) })
        thread.stop()
        #expect(onThread { refusal { try thread.run {} } } == .loopEnded)
        await #expect(throws: RunLoopError.loopEnded) { try await thread.run {} }
        leave.open()
        #expect(try await thread.join(before: .patience))
        #expect(onThread { refusal { try thread.run {} } } == .loopEnded)
        await #expect(throws: RunLoopError.loopEnded) { try await thread.run {} }
    }

    @Test func `closures that are queued when the thread ends, or given while it stops, are called or refused`() throws
    {
        for _ in 0..<100 {
            let thread = try RunLoopThread()
            let (called, refused) = (Shared(0), Shared(0))
            let helpers = (0..<4).map { _ in
                Helper {
                    for _ in 0..<5 {
                        let error = refusal { try thread.run { called.withLock { $0 += 1 } } }
                        if error == .loopEnded { refused.withLock { $0 += 1 } }
                    }
                }
            }
            thread.stop()
            for helper in helpers { helper.join() }
            #expect(called.withLock { $0 } + refused.withLock { $0 } == 20)
            #expect(thread.join(before: .patience))
        }
    }

    @Test func `a thread that finishes calls what waits, and then ends`() throws {
        for _ in 0..<100 {
            let (thread, trace) = (try RunLoopThread(), Trace())
            let last = ThreadRunLoop.Source0(order: .max) { trace("source") }
            try thread.loop.add(last)
            let body = { @Sendable (name: String) in { @Sendable in trace(name) } }
            try thread.loop.perform(order: .max, body("request"))
            try thread.loop.perform(body("block"))
            try thread.loop.perform(inModes: [.common]) {
                trace("common")
                try? thread.loop.perform(body("inner"))
            }
            try thread.loop.perform(after: .seconds(60), body("late"))
            try thread.loop.perform(inModes: ["other"], body("other"))
            last.signal()
            thread.finish()
            #expect(thread.join(before: .patience))
            #expect(trace.all.filter { $0 != "inner" }.sorted() == ["block", "common", "request", "source"])
            thread.finish()
        }
    }

    @Test func `what a thread calls when it finishes may run the loop`() throws {
        let (thread, trace) = (try RunLoopThread(), Trace())
        try thread.run {
            let loop = ThreadRunLoop.current
            try loop.perform(order: 1) {
                try? loop.perform(inModes: ["inner"]) { trace("inner") }
                run(loop, "inner", seconds: 0)
            }
            thread.finish()
        }
        #expect(thread.join(before: .patience))
        #expect(trace.all == ["inner"])
    }

    @Test func `a thread gives way as it was told`() throws {
        let thread = try RunLoopThread(niceness: 7)
        let before = getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0)
        #expect(try thread.run { getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0) } == 7)
        #expect(getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0) == before)
    }

    @Test func `a thread that may not be so important is an error`() {
        #expect(helper("niceness") == 0)
        #expect(helper("niceness", of: "AsyncMainHelper") == 0)
    }

    @Test func `a thread has the stack it was given`() throws {
        // The system's default is 8 MiB as a rule. The thread sanitizer cannot count 20,000 calls inside each other.
        let thread = try RunLoopThread(stackSize: 128 << 20)
        #expect(try thread.run { depth(10_000) } == 10_000)
    }

    @Test func `the smallest stack is enough for a loop`() throws {
        #if THREAD_SANITIZER
            // The sanitizer's own share of each stack is large.
            let size = 8 * RunLoopThread.minimumStackSize
        #else
            let size = RunLoopThread.minimumStackSize
        #endif
        let (thread, fired) = (try RunLoopThread(stackSize: size), Latch())
        try thread.loop.perform(after: .zero) {
            _ = try? thread.loop.perform(order: 0) { run(thread.loop, seconds: 0) }
            _ = try? thread.loop.perform(after: .zero) { fired.open() }
        }
        #expect(fired.wait(until: .patience))
        #expect(try thread.run { 7 } == 7)
    }

    @Test(arguments: [-1, 0, 1, 16383, RunLoopThread.minimumStackSize - 1, 1 << 60, .max])
    func `a stack that cannot be is an error`(_ size: Int) {
        #expect(throws: RunLoopError.invalidStackSize(size, minimum: RunLoopThread.minimumStackSize)) {
            try RunLoopThread(stackSize: size)
        }
    }

    @Test func `a thread that is stopped inside of a run until a time ends`() throws {
        let (thread, isInside) = (try RunLoopThread(), Latch())
        try thread.loop.perform {
            isInside.open()
            // Seconds, so that a failure is not for ever.
            #expect(throws: Never.self) { try thread.loop.run(until: .now + .seconds(60)) }
        }
        #expect(isInside.wait(until: .patience))
        thread.stop()
        #expect(thread.join(before: .patience))
    }

    @Test func `a handler that ends its thread ends the loop, and those who wait for the thread go on`() throws {
        let thread = try RunLoopThread()
        try thread.loop.add(ThreadRunLoop.Timer(after: .zero) { _ in pthread_exit(nil) })
        #expect(thread.join(before: .patience))
        #expect(thread.loop.currentMode == nil)
        #expect(refusal { try thread.run {} } == .loopEnded)
    }

    @Test func `threads that are started and stopped leave no thread and no descriptor behind`() {
        #expect(helper("threads") == 0)
    }
}

private struct Refusal: Error, Equatable {}

/// Calls itself so often, with a kilobyte on the stack each time.
private func depth(_ count: Int) -> Int {
    guard count > 0 else { return 0 }
    return withUnsafeTemporaryAllocation(byteCount: 1000, alignment: 1) { bytes in
        bytes[count % 1000] = 1
        return depth(count - 1) + Int(bytes[count % 1000])
    }
}

/// The run loop's error that a call ends with, if it does.
private func refusal(_ body: () throws -> Void) -> RunLoopError? {
    do {
        try body()
        return nil
    } catch {
        return error as? RunLoopError
    }
}
