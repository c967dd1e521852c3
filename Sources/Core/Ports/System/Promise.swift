import RunLoopLocks
import RunLoops

/// A value that is set once. The thread that sets it calls the handlers in their order. A handler that is added later
/// is called at once.
final class Promise<Value: Sendable>: Sendable {
    typealias Handler = @Sendable (Value) -> Void

    private struct State {
        /// Whether the value is decided. It may not be visible yet.
        var isDecided = false
        var value: Value?
        /// Whether all handlers were called, so that a later one is called at once.
        var isTold = false
        var waiters: [any Waiter] = []
        var handlers: [Handler] = []
    }

    private let state = Lock(State())

    var value: Value? { state.withLock { $0.value } }

    /// Sets the value, wakes the waiters, and calls the handlers. Only the first call has an effect.
    /// - Parameters:
    ///   - value: The value.
    ///   - beforeTold: Called when the value is decided and not visible yet.
    /// - Returns: Whether this was the first call.
    @discardableResult
    func set(_ value: Value, beforeTold: () -> Void = {}) -> Bool {
        if state.withLock({ exchange(&$0.isDecided, with: true) }) { return false }
        beforeTold()
        let waiters = state.withLock { state in
            state.value = value
            return exchange(&state.waiters, with: [])
        }
        for waiter in waiters { waiter.wake() }
        while true {
            let handlers = state.withLock { state in
                state.isTold = state.handlers.isEmpty
                return exchange(&state.handlers, with: [])
            }
            if handlers.isEmpty { return true }
            for handler in handlers { handler(value) }
        }
    }

    /// Calls a handler when the value is set, or at once.
    func whenSet(_ handler: @escaping Handler) {
        let value = state.withLock { state -> Value? in
            if !state.isTold { state.handlers.append(handler) }
            return state.isTold ? state.value : nil
        }
        if let value { handler(value) }
    }

    func dropHandlers() {
        // Released after the lock, because the release may call this object again.
        _ = state.withLock { exchange(&$0.handlers, with: []) }
    }

    /// Blocks until the value is set.
    /// - Returns: Nil when the deadline came first.
    func wait(until deadline: MonotonicInstant) -> Value? {
        if let value { return value }
        let waiter = Latch()
        add(waiter)
        defer { remove(waiter) }
        _ = waiter.wait(until: deadline)
        return value
    }

    /// Suspends until the value is set.
    /// - Returns: Nil when the deadline came first.
    /// - Throws: `CancellationError`, or ``PortError`` without a thread for the deadline.
    nonisolated(nonsending) func value(
        before deadline: MonotonicInstant, on housekeeping: Housekeeping
    ) async throws -> Value? {
        let waiter = TaskWaiter(housekeeping)
        add(waiter)
        defer { remove(waiter) }
        do {
            repeat { if let value { return value } } while try await waiter.wait(until: deadline)
            return nil
        } catch {
            // The value may have been set together with the cancellation.
            if let value { return value }
            throw error
        }
    }

    func add(_ waiter: some Waiter) {
        let isSet = state.withLock { state in
            if state.value == nil { state.waiters.append(waiter) }
            return state.value != nil
        }
        if isSet { waiter.wake() }
    }

    func remove(_ waiter: some Waiter) { state.withLock { $0.waiters.removeAll { $0 === waiter } } }
}

extension Latch: Waiter {
    func wake() { open() }
}
