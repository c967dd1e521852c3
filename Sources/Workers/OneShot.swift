import RunLoopLocks

/// A value that is set once, and that tasks wait for.
package final class OneShot<Value: Sendable>: Sendable {
    private typealias Waiter = CheckedContinuation<Value?, Never>

    private enum State {
        case unset([Int: Waiter], lastNumber: Int)
        case set(Value)
    }

    private let state = Lock(State.unset([:], lastNumber: 0))

    package init() {}

    package var value: Value? { state.withLock { if case .set(let value) = $0 { value } else { nil } } }
    var isSet: Bool { value != nil }

    /// Only the first call has an effect.
    /// - Returns: Whether this is the first call.
    @discardableResult
    package func set(_ value: Value) -> Bool {
        let waiters = state.withLock { state -> [Waiter]? in
            guard case .unset(let waiters, _) = state else { return nil }
            state = .set(value)
            return Array(waiters.values)
        }
        for waiter in waiters ?? [] { waiter.resume(returning: value) }
        return waiters != nil
    }

    /// Suspends until the value is set.
    /// - Returns: Nil when the task was cancelled before.
    package nonisolated(nonsending) func wait() async -> Value? {
        guard let number = nextNumber() else { return value }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { add($0, number) }
        } onCancel: {
            remove(number)?.resume(returning: nil)
        }
    }

    /// Suspends until the value is set, the deadline, or the end of the task.
    package nonisolated(nonsending) func wait(until deadline: ContinuousClock.Instant) async -> Value? {
        await withTaskGroup { group in
            group.addTask { await self.wait() }
            group.addTask {
                try? await Task.sleep(until: deadline, clock: .continuous)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }

    /// - Returns: Nil when the value is set.
    private func nextNumber() -> Int? {
        state.withLock { state in
            guard case .unset(let waiters, let last) = state else { return nil }
            state = .unset(waiters, lastNumber: last + 1)
            return last + 1
        }
    }

    private func add(_ waiter: Waiter, _ number: Int) {
        let value = state.withLock { state -> Value?? in
            switch state {
            case .set(let value): return .some(value)
            case .unset(var waiters, let last):
                if Task.isCancelled { return .some(nil) }
                waiters[number] = waiter
                state = .unset(waiters, lastNumber: last)
                return nil
            }
        }
        if let value { waiter.resume(returning: value) }
    }

    private func remove(_ number: Int) -> Waiter? {
        state.withLock { state in
            guard case .unset(var waiters, let last) = state else { return nil }
            let waiter = waiters.removeValue(forKey: number)
            state = .unset(waiters, lastNumber: last)
            return waiter
        }
    }
}
