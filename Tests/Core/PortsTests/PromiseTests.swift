import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct PromiseTests {
    @Test func `the first value counts, for those who ask before and after`() {
        let (promise, told) = (Promise<Int>(), Shared<[String]>([]))
        promise.whenSet { value in told.withLock { $0.append("early \(value)") } }
        #expect(promise.value == nil)
        #expect(promise.wait(until: .distantPast) == nil)
        #expect(promise.set(1))
        #expect(!promise.set(2))
        promise.whenSet { value in told.withLock { $0.append("late \(value)") } }
        #expect(promise.value == 1)
        #expect(promise.wait(until: .distantPast) == 1)
        #expect(told.withLock { $0 } == ["early 1", "late 1"])
    }

    @Test func `a handler that is added inside another comes after those before it`() {
        let (promise, told) = (Promise<Void>(), Shared<[Int]>([]))
        promise.whenSet {
            promise.whenSet { told.withLock { $0.append(3) } }
            told.withLock { $0.append(1) }
        }
        promise.whenSet { told.withLock { $0.append(2) } }
        promise.set(())
        #expect(told.withLock { $0 } == [1, 2, 3])
    }

    @Test func `nobody sees a value before what comes before its telling`() {
        let promise = Promise<Int>()
        promise.set(1) {
            #expect(promise.value == nil)
            #expect(!promise.set(2))
            promise.whenSet { #expect($0 == 1) }
        }
        #expect(promise.value == 1)
    }

    @Test func `threads and tasks that wait are woken`() async throws {
        let promise = Promise<Int>()
        let thread = Helper { promise.wait(until: .patience) }
        async let task = promise.value(before: .patience, on: PortRuntime.shared.housekeeping)
        promise.set(7)
        #expect(thread.value() == 7)
        #expect(try await task == 7)
    }

    @Test func `a task that waits ends at its deadline, and when it is cancelled`() async throws {
        let promise = Promise<Int>()
        let deadline = MonotonicInstant.now + .milliseconds(10)
        #expect(try await promise.value(before: deadline, on: PortRuntime.shared.housekeeping) == nil)
        let task = Task { try await promise.value(before: .patience, on: PortRuntime.shared.housekeeping) }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test func `handlers that are dropped are not called`() {
        let promise = Promise<Void>()
        promise.whenSet { Issue.record("a dropped handler was called") }
        promise.dropHandlers()
        promise.set(())
    }
}
