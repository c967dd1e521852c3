import RunLoopLocks

/// Counts the requests of a port that were taken and wait for their replies, so that a port can end after the last.
final class TakenRequests: Sendable {
    private struct State {
        var count = 0
        var isFinishing = false
    }

    private let state = Lock(State())
    /// Set when the port takes no more requests, and none waits for its reply.
    let areDone = Promise<Void>()

    /// - Returns: False when the port takes no more requests.
    func begin() -> Bool {
        state.withLock { state in
            if !state.isFinishing { state.count += 1 }
            return !state.isFinishing
        }
    }

    func end() { change { $0.count -= 1 } }

    var isFinishing: Bool { state.withLock { $0.isFinishing } }

    /// Takes no more requests.
    func finish() { change { $0.isFinishing = true } }

    private func change(_ change: (inout State) -> Void) {
        let isDone = state.withLock { state in
            change(&state)
            return state.isFinishing && state.count == 0
        }
        if isDone { areDone.set(()) }
    }
}
