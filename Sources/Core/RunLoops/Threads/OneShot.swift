import RunLoopLocks

/// A value that is set once, and that tasks and threads wait for.
package final class OneShot<Value: Sendable>: Sendable {
    /// Gets the value; nil when the wait was given up.
    private typealias Waiter = @Sendable (Value?) -> Void

    private enum State {
        case unset([Int: Waiter], lastNumber: Int)
        case set(Value)
    }

    private let state = Lock(State.unset([:], lastNumber: 0))

    package init() {}

    package var value: Value? { state.withLock { if case .set(let value) = $0 { value } else { nil } } }
    package var isSet: Bool { value != nil }

    /// Only the first call has an effect.
    /// - Returns: Whether this is the first call.
    @discardableResult
    package func set(_ value: Value) -> Bool {
        let waiters = state.withLock { state -> [Waiter]? in
            guard case .unset(let waiters, _) = state else { return nil }
            state = .set(value)
            return Array(waiters.values)
        }
        for waiter in waiters ?? [] { waiter(value) }
        return waiters != nil
    }

    /// Calls the closure when the value is set, or at once.
    package func whenSet(_ body: @escaping @Sendable (Value) -> Void) {
        guard let number = nextNumber() else { return value.map(body) ?? () }
        add(number) { if let value = $0 { body(value) } }
    }

    /// Suspends until the value is set, the deadline, or the end of the task.
    /// - Returns: Nil when the task was cancelled, or the deadline came, before the value.
    package nonisolated(nonsending) func wait(until deadline: ContinuousClock.Instant? = nil) async -> Value? {
        guard let number = nextNumber() else { return value }
        var alarm: Alarm?
        defer { alarm?.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                add(number) { continuation.resume(returning: $0) }
                // The handler of a task that is cancelled already was called before the waiter was there.
                if Task.isCancelled { return giveUp(number) }
                // When the waiter is there, because a passed deadline comes at once.
                if let deadline {
                    alarm = Alarm(at: MonotonicInstant(deadline)) { [weak self] in self?.giveUp(number) }
                }
            }
        } onCancel: {
            giveUp(number)
        }
    }

    /// Blocks the thread until the value is set.
    /// - Returns: Nil when the deadline came first.
    package func block(until deadline: ContinuousClock.Instant?) -> Value? {
        guard let number = nextNumber() else { return value }
        let latch = Latch()
        add(number) { _ in latch.open() }
        _ = latch.wait(until: MonotonicInstant(deadline))
        giveUp(number)
        return value
    }

    /// Blocks the thread until the value is set.
    package func block() -> Value {
        while true { if let value = block(until: nil) { return value } }
    }

    /// - Returns: Nil when the value is set.
    private func nextNumber() -> Int? {
        state.withLock { state in
            guard case .unset(let waiters, let last) = state else { return nil }
            state = .unset(waiters, lastNumber: last + 1)
            return last + 1
        }
    }

    private func add(_ number: Int, _ waiter: @escaping Waiter) {
        let value = state.withLock { state -> Value? in
            switch state {
            case .set(let value): return value
            case .unset(var waiters, let last):
                waiters[number] = waiter
                state = .unset(waiters, lastNumber: last)
                return nil
            }
        }
        if let value { waiter(value) }
    }

    private func giveUp(_ number: Int) {
        let waiter = state.withLock { state -> Waiter? in
            guard case .unset(var waiters, let last) = state else { return nil }
            let waiter = waiters.removeValue(forKey: number)
            state = .unset(waiters, lastNumber: last)
            return waiter
        }
        waiter?(nil)
    }
}
