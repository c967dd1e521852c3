import RunLoopLocks

/// The lanes of one `serve`. One task takes requests. It waits until it may take another, or is woken for good.
final class RequestLanes: Waiter {
    /// A request that waits for its lane. Exactly one of its closures is called.
    struct Work: Sendable {
        let answer: @Sendable () async -> Void
        let refuse: @Sendable () -> Void
    }

    typealias Table = RequestLaneAdmission<Work>

    /// The state for an observer of the port.
    struct Look {
        let count: Int
        let limit: Int
        let fullLane: String?
    }

    private struct State {
        var table: Table
        var isWoken = false
        var taker: CheckedContinuation<Void, Never>?
    }

    private let state: Lock<State>

    init(_ lane: RequestLane, lasting: RequestLane?) { state = Lock(State(table: Table(lane, lasting: lasting))) }

    var look: Look {
        state.withLock { state in
            let (count, limit) = state.table.handlers
            return Look(count: count, limit: limit, fullLane: state.table.fullLane)
        }
    }

    var counters: [String: RequestLane.Counters] { state.withLock { $0.table.counters } }

    /// Takes requests ahead, because a request of another lane may be behind one that has to wait.
    func takeAhead() { change { $0.takesAhead = true } }

    /// Suspends until the next request may be taken, or somebody has called ``wake()``.
    func wait() async {
        await withCheckedContinuation { continuation in
            let mayTake = state.withLock { state in
                let mayTake = state.table.mayTake || state.isWoken
                if !mayTake { state.taker = continuation }
                return mayTake
            }
            if mayTake { continuation.resume() }
        }
    }

    func arrive(_ kind: RequestKind?, _ subject: UInt32, _ work: () -> Work) -> Table.Arrival {
        state.withLock { $0.table.arrive(kind, subject, work) }
    }

    /// A request has ended.
    /// - Parameter isLast: Whether its task handles no other: it was cancelled.
    /// - Returns: The request to handle next, in the same task.
    func end(_ index: Table.Index, isLast: Bool) -> Work? { change { $0.end(index, isLast: isLast) } }

    /// A request has ended, whose task handles no other. The next one gets a task.
    func goOn(_ index: Table.Index) {
        guard let next = end(index, isLast: false) else { return }
        Task {
            await next.answer()
            goOn(index)
        }
    }

    func withdraw(_ index: Table.Index, _ ticket: Table.Ticket) { _ = change { $0.withdraw(index, ticket) } }

    /// The port finishes, and another owner of its name may handle the requests that wait.
    func finish() { for work in change({ $0.finish() }) { work.refuse() } }

    func refuseWaiting() { for work in change({ $0.removeWaiting() }) { work.refuse() } }

    func wake() { resume { $0.isWoken = true } }

    private func change<Result: Sendable>(_ change: (inout Table) -> Result) -> Result {
        resume { change(&$0.table) }
    }

    private func resume<Result: Sendable>(after change: (inout State) -> Result) -> Result {
        let (result, taker) = state.withLock { state in
            let result = change(&state)
            return (result, state.table.mayTake || state.isWoken ? state.taker.take() : nil)
        }
        taker?.resume()
        return result
    }
}
