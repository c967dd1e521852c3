import RunLoopLocks

/// Places for handlers. One task waits for a place, until it is woken for good.
final class Slots: Waiter {
    private struct State {
        var free: Int
        var isWoken = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state: Lock<State>

    let count: Int

    init(_ count: Int) {
        self.count = count
        state = Lock(State(free: count))
    }

    /// The places in use.
    var used: Int { state.withLock { count - $0.free } }

    /// Suspends until there is a free place, or somebody has called ``wake()``.
    func wait() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                let isFree = state.free > 0 || state.isWoken
                if !isFree { state.waiter = continuation }
                return isFree
            }
            if isFree { continuation.resume() }
        }
    }

    /// - Returns: False when there is no place.
    func take() -> Bool {
        state.withLock { state in
            guard state.free > 0 else { return false }
            state.free -= 1
            return true
        }
    }

    func giveBack() { resume(after: { $0.free += 1 }) }

    func wake() { resume(after: { $0.isWoken = true }) }

    private func resume(after change: (inout State) -> Void) {
        let waiter = state.withLock { state in
            change(&state)
            return state.waiter.take()
        }
        waiter?.resume()
    }
}
