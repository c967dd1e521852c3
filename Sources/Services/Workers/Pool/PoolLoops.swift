import RunLoops
import TypedPorts

// A pool for threads with run loops, without tasks.

extension WorkerPool {
    /// Sends a request to a free worker, and blocks the thread until the reply. The thread's loop does not run meanwhile.
    /// - Parameters:
    ///   - request: The request for the worker's handler.
    ///   - key: Requests with equal keys go to the same worker, or to the one that has replaced it; nil for any worker.
    ///   - timeout: The time for all, with the wait for a worker. A worker that is still busy with the request when the
    ///     `hangTime` of the pool's options has passed after that, is killed.
    ///   - retries: How often the request may be sent to another worker when one has ended with it, and may have handled a
    ///     part of it. A request that has ended two workers is not sent again.
    /// - Throws: ``WorkerPoolError``; the errors of the handler, as `RequestClient.request` throws them.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func request<R: PortRequest>(
        _ request: R, key: (any Hashable & Sendable)? = nil, timeout: Duration = .seconds(10), retries: Int = 0
    ) throws -> R.Reply {
        var pooled = PooledRequest(slot: key.map(slot), timeout: timeout, retries: retries)
        while true {
            let lease = try acquire(pooled)
            do {
                let reply = try lease.worker.client.request(request, timeout: pooled.deadline - .now)
                leave(lease)
                return reply
            } catch {
                guard let loss = try loss(of: lease, after: error, pooled) else { continue }
                try leave(lease, lease.worker.blockUntilEnd(after: loss), after: error, &pooled)
            }
        }
    }

    /// Blocks until there is a worker.
    private func acquire(_ pooled: PooledRequest) throws(WorkerPoolError) -> PoolQueue.Lease {
        switch try queue.arrive(for: pooled.slot) {
        case .go(let lease): return lease
        case .wait(let place):
            if let outcome = place.outcome.block(until: pooled.deadline) { return try outcome.get() }
            giveUp(place)
            throw found(noWorker: pooled)
        }
    }

    /// Sends a request to a free worker without waiting, and calls a handler with the reply or the error on the calling
    /// thread's loop, once. The mode is not empty until then.
    ///
    ///     struct Decode: PortRequest {
    ///         typealias Reply = [UInt8]
    ///         var file: String
    ///     }
    ///
    ///     func show(_ file: String, _ pool: WorkerPool) throws {
    ///         try pool.request(Decode(file: file)) { reply in print(reply) }
    ///     }
    ///
    /// The handler is any closure. It is never called inside this method, and not when the loop's thread ends first, which
    /// gives the request up.
    /// - Parameters:
    ///   - request: The request for the worker's handler.
    ///   - key: As for a request that blocks.
    ///   - timeout: As for a request that blocks.
    ///   - retries: As for a request that blocks.
    ///   - mode: The mode of the loop in which the handler is called.
    ///   - onReply: Gets the reply, or the error that the form for tasks throws, but no `CancellationError`.
    /// - Returns: The request, to cancel it.
    /// - Throws: `RunLoopError` when the loop's thread ends, or the process is a forked child: nothing was sent.
    @available(*, noasync, message: "a task may go on on another thread; `try await` the reply")
    @discardableResult
    public func request<R: PortRequest>(
        _ request: R, key: (any Hashable & Sendable)? = nil, timeout: Duration = .seconds(10), retries: Int = 0,
        forMode mode: ThreadRunLoop.Mode = .default, onReply: @escaping (Result<R.Reply, any Error>) -> Void
    ) throws(RunLoopError) -> LoopRequest {
        try LoopRequest.start(label: "reply of \(name)", forMode: mode, onReply) {
            do {
                return .success(try await self.request(request, key: key, timeout: timeout, retries: retries))
            } catch {
                return .failure(error)
            }
        }
    }

    /// Starts the workers, and returns at once. The pool looks after them until it is stopped, or the calling thread has
    /// ended. Calls a handler on the calling thread's loop when all workers have ended. The mode is not empty until then.
    ///
    ///     func start(_ pool: WorkerPool) throws {
    ///         try pool.start { error in
    ///             if let error { print(error) }
    ///             ThreadRunLoop.current.stop()
    ///         }
    ///     }
    ///
    /// - Parameters:
    ///   - mode: The mode of the loop in which the handler is called.
    ///   - onEnd: Gets the error that ``run()`` throws, or nil. It is any closure, and is never called inside this method.
    /// - Throws: ``WorkerPoolError``: `isRunning`; `failed` when the loop's thread ends, or the process is a forked child.
    @available(*, noasync, message: "a task may go on on another thread; `try await` `run()`")
    public func start(
        forMode mode: ThreadRunLoop.Mode = .default, onEnd: @escaping (WorkerPoolError?) -> Void
    ) throws(WorkerPoolError) {
        let run = try begin()
        do {
            _ = try LoopRequest.start(label: "end of \(name)", forMode: mode, onEnd) { () -> WorkerPoolError? in
                do throws(WorkerPoolError) {
                    try await self.work(run)
                    return nil
                } catch {
                    return error
                }
            }
        } catch {
            let failure = WorkerPoolError.failed(pool: name, reasons: ["\(error)"])
            end(run, with: failure)
            run.ended.set(())
            throw failure
        }
    }

    /// Stops the pool, and blocks until all workers have ended: requests that wait for a worker are refused, and the workers
    /// get SIGTERM, upon which a ``WorkerProgram`` answers what it has taken. The pool kills workers that are still there
    /// after the stop time.
    /// - Returns: The workers that had to be killed.
    @available(*, noasync, message: "it blocks; `await` it in an async function, not at the top of main.swift")
    @discardableResult
    public func stop() -> [String] {
        let run = beginStop()
        if run.hasBegun.isSet { _ = run.ended.block(until: nil) }
        return killed
    }
}
