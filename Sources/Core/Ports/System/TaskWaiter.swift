import RunLoopLocks
import RunLoops

/// A task that waits without blocking a thread. The housekeeping thread watches the descriptor and the clock.
package final class TaskWaiter: Waiter {
    private struct State {
        var isWoken = false
        var continuation: CheckedContinuation<Void, Never>?
        var watch: (any Watch)?
    }

    private let housekeeping: Housekeeping
    private let state = Lock(State())

    init(_ housekeeping: Housekeeping) { self.housekeeping = housekeeping }

    deinit { stopWatching() }

    package func wake() {
        let continuation = state.withLock { state in
            state.isWoken = state.continuation == nil
            return state.continuation.take()
        }
        continuation?.resume()
    }

    /// Ends the next wait also when the descriptor becomes readable. The descriptor must be open during the call.
    func watch(_ descriptor: Int32) throws(PortError) {
        let watch = try housekeeping.watch(descriptor, "a port that a task waits for", for: self)
        state.withLock { $0.watch = watch }
    }

    private func stopWatching() { state.withLock { $0.watch.take() }?.invalidate() }

    /// Suspends until a wake-up, the descriptor or the deadline.
    /// - Returns: False when the deadline had passed before the call.
    /// - Throws: `CancellationError`, or ``PortError`` without a thread for the deadline.
    package nonisolated(nonsending) func wait(until deadline: MonotonicInstant) async throws -> Bool {
        defer { stopWatching() }
        if deadline.hasPassed { return false }
        var timer: ThreadRunLoop.Timer?
        if deadline != .distantFuture {
            let made = ThreadRunLoop.Timer(due: deadline, label: "a port's deadline") { [weak self] _ in self?.wake() }
            try housekeeping.add(made)
            timer = made
        }
        defer { timer?.invalidate() }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isWoken = state.withLock { state in
                    if !state.isWoken { state.continuation = continuation }
                    return exchange(&state.isWoken, with: false)
                }
                if isWoken { continuation.resume() }
            }
        } onCancel: {
            wake()
        }
        try Task.checkCancellation()
        return true
    }
}
