import RunLoops
import Synchronization

/// A task that waits. No thread does for it: the housekeeping thread's loop watches the descriptor and the clock.
final class TaskWaiter: Waiter {
    private struct State {
        var isTold = false
        var continuation: CheckedContinuation<Void, Never>?
        var watch: ThreadRunLoop.Source1?
    }

    private let state = Mutex(State())

    deinit { stopWatching() }

    func wake() {
        let continuation = state.withLock { state in
            state.isTold = state.continuation == nil
            defer { state.continuation = nil }
            return state.continuation
        }
        continuation?.resume()
    }

    /// Ends the next wait when the descriptor is readable, too. The descriptor must be open during the call.
    func watch(_ descriptor: Int32) throws(PortError) {
        let source = ThreadRunLoop.Source1(descriptor: descriptor, label: "a port that a task waits for") {
            [weak self] turn in
            turn.source.invalidate()
            self?.wake()
            return true
        }
        let loop = try PortProcess.current.housekeepingLoop()
        try runLoop { () throws(RunLoopError) in try loop.add(source) }
        state.withLock { $0.watch = source }
    }

    private func stopWatching() {
        let watch = state.withLock { state in
            defer { state.watch = nil }
            return state.watch
        }
        watch?.invalidate()
    }

    /// Suspends until somebody tells, the descriptor that is watched is readable, the deadline comes or the task is
    /// cancelled: the task looks for itself which of these it was.
    nonisolated(nonsending) func wait(until deadline: MonotonicInstant) async throws(PortError) {
        defer { stopWatching() }
        var timer: ThreadRunLoop.Timer?
        if deadline != .distantFuture {
            let loop = try PortProcess.current.housekeepingLoop()
            let made = ThreadRunLoop.Timer(at: deadline, label: "a port's deadline") { [weak self] _ in self?.wake() }
            loop.add(made)
            timer = made
        }
        defer { timer?.invalidate() }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isTold = state.withLock { state in
                    if !state.isTold { state.continuation = continuation }
                    defer { state.isTold = false }
                    return state.isTold
                }
                if isTold { continuation.resume() }
            }
        } onCancel: {
            wake()
        }
    }
}
