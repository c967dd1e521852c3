import RunLoopLocks

/// Places for handlers. One task waits for a place.
final class Slots: Sendable {
    private struct State {
        var free: Int
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

    /// Suspends until there is a free place.
    func wait() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                if state.free <= 0 { state.waiter = continuation }
                return state.free > 0
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

    func giveBack() {
        let waiter = state.withLock { state in
            state.free += 1
            return state.waiter.take()
        }
        waiter?.resume()
    }
}
