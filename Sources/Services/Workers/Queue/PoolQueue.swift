import RunLoopLocks

/// The workers of a pool and the requests that wait for them: the lock around a ``PoolState``, and the effects of its
/// decisions.
final class PoolQueue: Sendable {
    typealias State = PoolState<PoolWorker>
    typealias Lease = State.Lease

    /// A request that waits for a worker.
    struct Place: Sendable {
        fileprivate let ticket: Int
        fileprivate let since = ContinuousClock.now
        let outcome = OneShot<Result<Lease, WorkerPoolError>>()
    }

    enum Arrival {
        case go(Lease)
        case wait(Place)
    }

    private struct Guarded {
        var state: State
        /// By their tickets.
        var places: [Int: Place] = [:]
        /// The workers that run, by their members.
        var workers: [PoolWorker?]
        var waited = 0
        var waitTime = Duration.zero

        /// A request waits no more.
        mutating func takePlace(_ ticket: Int) -> Place? {
            guard let place = places.removeValue(forKey: ticket) else { return nil }
            waited += 1
            waitTime += .now - place.since
            return place
        }
    }

    private let guarded: Lock<Guarded>

    init(_ state: State) {
        guarded = Lock(Guarded(state: state, workers: Array(repeating: nil, count: state.memberCount)))
    }

    /// Changes the state with the lock held, and then resumes the requests that get something.
    private func grant(_ change: (inout Guarded) -> [State.Grant]) {
        let granted = guarded.withLock { guarded in
            let grants = change(&guarded)
            return grants.compactMap { grant in
                guarded.takePlace(grant.ticket).map { ($0, grant.outcome) }
            }
        }
        for (place, outcome) in granted { place.outcome.set(outcome) }
    }

    // MARK: Runs

    /// The reason why no requests are taken; nil while they are.
    var end: WorkerPoolError? { guarded.withLock { $0.state.end } }

    /// Takes requests again.
    /// - Returns: The number of the run.
    func begin() -> Int { guarded.withLock { $0.state.begin() } }

    /// Takes no further requests, unless a later run has begun.
    func end(_ run: Int, with error: WorkerPoolError) { grant { $0.state.end(run, with: error) } }

    // MARK: Workers

    /// The workers that run.
    var workers: [PoolWorker] { guarded.withLock { $0.workers.compactMap(\.self) } }

    var statuses: [WorkerStatus] {
        guarded.withLock { guarded in
            guarded.workers.enumerated().compactMap { member, worker in
                guard let worker else { return nil }
                return WorkerStatus(
                    name: worker.name, pid: worker.process.pid, requestsInProgress: guarded.state.busy(member),
                    requests: guarded.state.count(member), isSpare: guarded.state.isSpare(member))
            }
        }
    }

    func isBusy(_ member: Int) -> Bool { guarded.withLock { $0.state.busy(member) > 0 } }

    /// A worker is ready.
    func add(_ worker: PoolWorker, as member: Int) {
        grant { guarded in
            guarded.workers[member] = worker
            return guarded.state.start(worker, as: member)
        }
    }

    /// The worker takes no further requests, because it has ended, or will.
    func end(_ worker: PoolWorker, as member: Int) {
        // The member may have another worker.
        grant { guarded in guarded.workers[member] === worker ? guarded.state.end(member) : [] }
    }

    /// The worker has ended.
    /// - Returns: Whether it has had a request.
    func remove(_ member: Int) -> Bool {
        var hasWorked = false
        grant { guarded in
            guarded.workers[member] = nil
            hasWorked = guarded.state.count(member) > 0
            return guarded.state.end(member)
        }
        return hasWorked
    }

    // MARK: Requests

    /// The number of requests that wait.
    var waitingCount: Int { guarded.withLock { $0.state.waitingCount } }

    /// The requests that have waited and wait no more, and the time for which they have waited, added up.
    var waits: (count: Int, time: Duration) { guarded.withLock { ($0.waited, $0.waitTime) } }

    /// A request wants a worker.
    func arrive(for slot: Int?) throws(WorkerPoolError) -> Arrival {
        try guarded.withLock { (guarded) throws(WorkerPoolError) in
            switch guarded.state.arrive(for: slot) {
            case .go(let lease): return .go(lease)
            case .refuse(let error): throw error
            case .wait(let ticket):
                let place = Place(ticket: ticket)
                guarded.places[ticket] = place
                return .wait(place)
            }
        }
    }

    /// A request does not wait any more.
    /// - Returns: False when it gets an outcome all the same.
    func withdraw(_ place: Place) -> Bool {
        guarded.withLock { guarded in
            _ = guarded.takePlace(place.ticket)
            return guarded.state.withdraw(place.ticket)
        }
    }

    /// A request has left its worker.
    /// - Returns: Whether the worker has to be ended, because it has had enough requests.
    func leave(_ lease: Lease) -> Bool {
        var isSpent = false
        grant { guarded in
            let left = guarded.state.leave(lease)
            isSpent = left.isSpent
            return left.next.map { [$0] } ?? []
        }
        return isSpent
    }
}
