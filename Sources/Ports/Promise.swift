import RunLoops
import Synchronization

/// A value that is set once, and the threads and tasks that wait for it.
final class Promise<Value: Sendable>: Sendable {
    private enum State {
        case pending([any Waiter])
        case set(Value)
    }

    private let state = Mutex(State.pending([]))

    /// Nil until the value is set.
    var value: Value? { state.withLock { if case .set(let value) = $0 { value } else { nil } } }

    /// The first value counts.
    func set(_ value: Value) {
        let waiters = state.withLock { state in
            guard case .pending(let waiters) = state else { return [] as [any Waiter] }
            state = .set(value)
            return waiters
        }
        for waiter in waiters { waiter.wake() }
    }

    /// Blocks the thread until the value is set; nil when the deadline comes first.
    func wait(until deadline: MonotonicInstant) -> Value? {
        if let value { return value }
        let waiter = GateWaiter()
        add(waiter)
        defer { remove(waiter) }
        _ = waiter.gate.wait(until: deadline)
        return value
    }

    /// Suspends the task until the value is set; nil when the deadline comes first.
    nonisolated(nonsending) func value(before deadline: MonotonicInstant) async throws -> Value? {
        let waiter = TaskWaiter()
        add(waiter)
        defer { remove(waiter) }
        while true {
            if let value { return value }
            try Task.checkCancellation()
            if deadline.hasPassed { return nil }
            try await waiter.wait(until: deadline)
        }
    }

    /// Wakes the waiter when the value is set: at once when it is.
    func add(_ waiter: some Waiter) {
        let isSet = state.withLock { state in
            guard case .pending(let waiters) = state else { return true }
            state = .pending(waiters + [waiter])
            return false
        }
        if isSet { waiter.wake() }
    }

    func remove(_ waiter: some Waiter) {
        state.withLock { state in
            if case .pending(let waiters) = state { state = .pending(waiters.filter { $0 !== waiter }) }
        }
    }
}

/// A thread that waits for one event.
private final class GateWaiter: Waiter {
    let gate = Gate()
    func wake() { gate.open() }
}
