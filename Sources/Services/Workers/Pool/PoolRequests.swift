import TypedPorts

// Requests through a pool, from tasks.

extension WorkerPool {
    /// Sends a request to a free worker, and returns its reply.
    /// - Parameters:
    ///   - request: The request for the worker's handler.
    ///   - key: Requests with equal keys go to the same worker, or to the one that has replaced it; nil for any worker.
    ///   - timeout: The time for all, with the wait for a worker. A worker that is still busy with the request when the
    ///     `hangTime` of the pool's options has passed after that, is killed.
    ///   - retries: How often the request may be sent to another worker when one has ended with it, and may have handled a
    ///     part of it. A request that has ended two workers is not sent again.
    /// - Throws: ``WorkerPoolError``; what the handler throws, as `RequestClient.request` throws it; `CancellationError`.
    public nonisolated(nonsending) func request<R: PortRequest>(
        _ request: R, key: (any Hashable & Sendable)? = nil, timeout: Duration = .seconds(10), retries: Int = 0
    ) async throws -> R.Reply {
        var pooled = PooledRequest(slot: key.map(slot), timeout: timeout, retries: retries)
        while true {
            let lease = try await acquire(pooled)
            do {
                let reply = try await lease.worker.client.request(request, timeout: pooled.deadline - .now)
                leave(lease)
                return reply
            } catch {
                guard let loss = try loss(of: lease, after: error, pooled) else { continue }
                try leave(lease, await lease.worker.end(after: loss), after: error, &pooled)
            }
        }
    }

    /// Calls the closure with a client of a free worker, which has the place of one request until the closure returns: for
    /// streams, and for requests that belong together.
    ///
    ///     struct Lines: PortStreamRequest {
    ///         typealias Element = String
    ///         var file: String
    ///     }
    ///
    ///     func count(_ file: String, _ pool: WorkerPool) async throws -> Int {
    ///         try await pool.withWorker { worker in
    ///             var count = 0
    ///             for try await _ in worker.stream(Lines(file: file)) { count += 1 }
    ///             return count
    ///         }
    ///     }
    ///
    /// - Parameters:
    ///   - key: As for a request.
    ///   - timeout: The time in which a worker has to be free.
    ///   - body: Called with the client.
    /// - Throws: ``WorkerPoolError``, also when the worker ends and the closure throws the error of its port; what the
    ///   closure throws; `CancellationError`.
    public nonisolated(nonsending) func withWorker<Result>(
        key: (any Hashable & Sendable)? = nil, timeout: Duration = .seconds(10),
        _ body: (RequestClient) async throws -> Result
    ) async throws -> Result {
        let lease = try await acquire(PooledRequest(slot: key.map(slot), timeout: timeout))
        do {
            let result = try await body(lease.worker.client)
            leaveLater(lease)
            return result
        } catch {
            let loss: PoolWorker.Loss? =
                switch PoolFailure(error, of: lease.worker) {
                case .workerGone: .certain
                case .unanswered, .notHandled: .possible
                case .answered, .timedOut, .unknown, .unsent: nil
                }
            guard let loss, let end = await lease.worker.end(after: loss) else {
                leaveLater(lease)
                throw error
            }
            leave(lease)
            throw WorkerPoolError.workerEnded(worker: lease.worker.name, end)
        }
    }

    /// Suspends until there is a worker.
    private nonisolated(nonsending) func acquire(_ pooled: PooledRequest) async throws -> PoolQueue.Lease {
        try Task.checkCancellation()
        switch try queue.arrive(for: pooled.slot) {
        case .go(let lease): return lease
        case .wait(let place):
            if let outcome = await place.outcome.wait(until: pooled.deadline) { return try outcome.get() }
            giveUp(place)
            try Task.checkCancellation()
            throw found(noWorker: pooled)
        }
    }
}
