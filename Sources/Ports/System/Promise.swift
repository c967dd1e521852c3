import RunLoops

/// A value that is set once. Threads and tasks wait for the value, and handlers are called with the value.
///
/// Handlers are called in the order they were added, by the thread that sets the value. A handler that is added later
/// is called at once.
final class Promise<Value: Sendable>: Sendable {
    typealias Handler = @Sendable (Value) -> Void

    private enum State {
        case pending([any Waiter], [Handler])
        /// The value is fixed, and not visible yet.
        case decided([any Waiter], [Handler])
        /// The value is visible, and a thread is calling the handlers.
        case telling(Value, [Handler])
        case told(Value)
    }

    private let state = Lock(State.pending([], []))

    /// Nil until the value is set.
    var value: Value? {
        state.withLock { state in
            switch state {
            case .pending, .decided: nil
            case .telling(let value, _), .told(let value): value
            }
        }
    }

    /// Sets the value, wakes the waiters, and calls the handlers. Only the first value counts.
    ///
    /// - Parameter beforeTold: Called when the value is fixed and not visible yet.
    /// - Returns: Whether this was the first value.
    @discardableResult
    func set(_ value: Value, beforeTold: () -> Void = {}) -> Bool {
        let isFirst = state.withLock { state in
            guard case .pending(let waiters, let handlers) = state else { return false }
            state = .decided(waiters, handlers)
            return true
        }
        guard isFirst else { return false }
        beforeTold()
        let waiters = state.withLock { state in
            guard case .decided(let waiters, let handlers) = state else { return [] as [any Waiter] }
            state = .telling(value, handlers)
            return waiters
        }
        for waiter in waiters { waiter.wake() }
        while let handlers = nextHandlers() { for handler in handlers { handler(value) } }
        return true
    }

    /// The handlers to call next; nil when there are none.
    private func nextHandlers() -> [Handler]? {
        state.withLock { state in
            guard case .telling(let value, let handlers) = state else { return nil }
            state = handlers.isEmpty ? .told(value) : .telling(value, [])
            return handlers.isEmpty ? nil : handlers
        }
    }

    /// Calls the handler when the value is set, or at once.
    func whenSet(_ handler: @escaping Handler) {
        let value = state.withLock { state -> Value? in
            switch state {
            case .pending(let waiters, let handlers): state = .pending(waiters, handlers + [handler])
            case .decided(let waiters, let handlers): state = .decided(waiters, handlers + [handler])
            case .telling(let value, let handlers): state = .telling(value, handlers + [handler])
            case .told(let value): return value
            }
            return nil
        }
        if let value { handler(value) }
    }

    /// Drops the handlers without calling them.
    func dropHandlers() {
        // Released after the lock: the release may call back in here.
        let dropped = state.withLock { state in
            switch state {
            case .pending(let waiters, let handlers):
                state = .pending(waiters, [])
                return handlers
            case .decided(let waiters, let handlers):
                state = .decided(waiters, [])
                return handlers
            case .telling(let value, let handlers):
                state = .telling(value, [])
                return handlers
            case .told: return []
            }
        }
        withExtendedLifetime(dropped) {}
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
    ///
    /// - Parameter housekeeping: Watches the deadline.
    nonisolated(nonsending) func value(
        before deadline: MonotonicInstant, on housekeeping: Housekeeping
    ) async throws -> Value? {
        let waiter = TaskWaiter(housekeeping)
        add(waiter)
        defer { remove(waiter) }
        while true {
            if let value { return value }
            try Task.checkCancellation()
            if deadline.hasPassed { return nil }
            try await waiter.wait(until: deadline)
        }
    }

    /// Wakes the waiter when the value is set, or at once.
    func add(_ waiter: some Waiter) {
        let isSet = state.withLock { state in
            switch state {
            case .pending(let waiters, let handlers): state = .pending(waiters + [waiter], handlers)
            case .decided(let waiters, let handlers): state = .decided(waiters + [waiter], handlers)
            case .telling, .told: return true
            }
            return false
        }
        if isSet { waiter.wake() }
    }

    func remove(_ waiter: some Waiter) {
        state.withLock { state in
            switch state {
            case .pending(let waiters, let handlers): state = .pending(waiters.filter { $0 !== waiter }, handlers)
            case .decided(let waiters, let handlers): state = .decided(waiters.filter { $0 !== waiter }, handlers)
            case .telling, .told: break
            }
        }
    }
}

/// A thread that waits for one event.
private final class GateWaiter: Waiter {
    let gate = Gate()
    func wake() { gate.open() }
}
