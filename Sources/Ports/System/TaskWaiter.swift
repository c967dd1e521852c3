import RunLoopLocks
import RunLoops

/// A task that waits without a thread: the housekeeping thread watches the descriptor and the clock.
final class TaskWaiter: Waiter {
    private struct State {
        var isWoken = false
        var continuation: CheckedContinuation<Void, Never>?
        var watch: ThreadRunLoop.Source1?
    }

    private let housekeeping: Housekeeping
    private let state = Lock(State())

    init(_ housekeeping: Housekeeping) { self.housekeeping = housekeeping }

    deinit { stopWatching() }

    func wake() {
        let continuation = state.withLock { state in
            state.isWoken = state.continuation == nil
            return state.continuation.take()
        }
        continuation?.resume()
    }

    /// Has the descriptor end the next wait, too. The descriptor must be open during the call.
    func watch(_ descriptor: Int32) throws(PortError) {
        let source = ThreadRunLoop.Source1(descriptor: descriptor, label: "a port that a task waits for") {
            [weak self] turn in
            turn.source.invalidate()
            self?.wake()
            return true
        }
        try housekeeping.add(source)
        state.withLock { $0.watch = source }
    }

    private func stopWatching() { state.withLock { $0.watch.take() }?.invalidate() }

    /// Suspends until a wake-up, the watched descriptor, the deadline or the task's cancellation. The caller checks which.
    nonisolated(nonsending) func wait(until deadline: MonotonicInstant) async throws(PortError) {
        defer { stopWatching() }
        var timer: ThreadRunLoop.Timer?
        if deadline != .distantFuture {
            let made = ThreadRunLoop.Timer(at: deadline, label: "a port's deadline") { [weak self] _ in self?.wake() }
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
    }
}
