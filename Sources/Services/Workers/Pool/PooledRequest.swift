import TypedPorts

/// A request through a pool, and the workers that have ended with it.
struct PooledRequest {
    /// The slot whose worker it has to be; nil for any.
    let slot: Int?
    let timeout: Duration
    let deadline: ContinuousClock.Instant
    private let retries: Int
    private var endedWorkers = 0

    init(slot: Int?, timeout: Duration, retries: Int = 0) {
        (self.slot, self.timeout, self.retries) = (slot, timeout, retries)
        deadline = .now + timeout
    }

    /// A worker has ended with the request.
    /// - Returns: Whether the request goes to another one.
    mutating func hasEndedWorker() -> Bool {
        endedWorkers += 1
        return endedWorkers <= min(retries, 1) && deadline > .now
    }

    func timedOut(_ pool: String, wasHandled: Bool) -> WorkerPoolError {
        .timedOut(pool: pool, after: timeout, wasHandled: wasHandled)
    }
}

// The steps of requests that tasks and threads have in common.

extension WorkerPool {
    func slot(of key: any Hashable & Sendable) -> Int { Int(UInt(bitPattern: key.hashValue) % UInt(count)) }

    /// The error of a request that has found no worker in time.
    func found(noWorker pooled: PooledRequest) -> WorkerPoolError {
        if let reason = reasonForNoWorker {
            return .noWorker(pool: name, after: pooled.timeout, reason: reason)
        }
        return pooled.timedOut(name, wasHandled: false)
    }

    /// A request does not wait for a worker any more. It leaves a worker that comes at the last moment.
    func giveUp(_ place: PoolQueue.Place) {
        if queue.withdraw(place) { return }
        place.outcome.whenSet { outcome in if case .success(let lease) = outcome { self.leave(lease) } }
    }

    /// Decides what follows for a request that has failed.
    /// - Returns: Nil when the request certainly was not handled, and goes to another worker.
    /// - Throws: The error for the asker when the worker lives on.
    func loss(
        of lease: PoolQueue.Lease, after error: any Error, _ pooled: PooledRequest
    ) throws -> PoolWorker.Loss? {
        switch PoolFailure(error, of: lease.worker) {
        case .answered:
            leave(lease)
            throw error
        case .timedOut(let wasHandled):
            leaveLater(lease)
            throw pooled.timedOut(name, wasHandled: wasHandled)
        case .unknown:
            leaveLater(lease)
            throw error
        case .unsent:
            // A worker that does not come to itself is killed as one that hangs.
            leaveLater(lease)
            if pooled.deadline <= .now { throw pooled.timedOut(name, wasHandled: false) }
            return nil
        case .notHandled:
            // The worker ends, most likely in order.
            lease.worker.isLeaving()
            leave(lease)
            return nil
        case .unanswered: return .possible
        case .workerGone: return .certain
        }
    }

    /// The worker may have ended with the request.
    /// - Parameter end: Nil when it lives on.
    /// - Throws: ``WorkerPoolError/workerEnded(worker:_:)`` unless the request goes to another worker; the error when the
    ///   worker lives on.
    func leave(
        _ lease: PoolQueue.Lease, _ end: WorkerEnd?, after error: any Error, _ pooled: inout PooledRequest
    ) throws {
        guard let end else {
            leaveLater(lease)
            throw error
        }
        leave(lease)
        guard pooled.hasEndedWorker() else { throw WorkerPoolError.workerEnded(worker: lease.worker.name, end) }
    }

    /// The request is done.
    func leave(_ lease: PoolQueue.Lease) {
        if queue.leave(lease) { lease.worker.end(.requestLimit(options.mostRequests ?? 0)) }
    }

    /// The asker has gone, and the handler may go on.
    func leaveLater(_ lease: PoolQueue.Lease) {
        Task {
            await lease.worker.becomeFree()
            leave(lease)
        }
    }
}
