import RunLoopLocks
import TypedPorts

/// Worker processes that answer typed requests, and that are replaced when they end: a crash takes down one worker, and not
/// the program.
///
///     struct Decode: PortRequest {
///         typealias Reply = [UInt8]
///         var file: String
///     }
///
///     func serve(_ pool: WorkerPool) async throws {
///         async let running: Void = pool.run()
///         do {
///             print(try await pool.request(Decode(file: "a.png")).count)
///         } catch let error as WorkerPoolError {
///             // The worker has crashed. Another one is there for the next request.
///             print(error)
///         }
///         await pool.stop()
///         try await running
///     }
///
/// The workers are processes of this program, which is a ``WorkerProgram``, or of another one. Each has a process group of
/// its own, and ends with this process, however that ends. Requests wait in the pool until it runs. Any thread may call all
/// methods.
public final class WorkerPool: Sendable {
    typealias State = PoolState<PoolWorker>

    /// A request that waits for a worker.
    private typealias Waiter = OneShot<Result<State.Lease, WorkerPoolError>>

    /// One run of the pool, from its start to its end.
    private final class Run: Sendable {
        let hasBegun = OneShot<Void>()
        /// The pool takes no further requests.
        let stopping = OneShot<Void>()
        /// All workers have ended.
        let ended = OneShot<Void>()
    }

    private struct Guarded {
        var state: State
        var waiters: [Int: Waiter] = [:]
        var history: RestartHistory
        /// The workers that run, by their members.
        var workers: [PoolWorker?]
        var startCount = 0
        var killed: [String] = []
        var run = Run()

        /// Takes the waiters out that get something.
        mutating func granted(_ grants: [State.Grant]) -> [(Waiter, Result<State.Lease, WorkerPoolError>)] {
            grants.compactMap { grant in waiters.removeValue(forKey: grant.ticket).map { ($0, grant.outcome) } }
        }
    }

    /// The name in errors and the log.
    public let name: String
    private let count: Int
    private let program: WorkerProcess.Configuration
    private let options: Options
    private let nameServer: PortNameServer
    private let guarded: Lock<Guarded>

    /// Makes a pool. Its workers start when it runs.
    /// - Parameters:
    ///   - program: The program of the workers. The default is this program, without arguments. The pool gives them process
    ///     groups of their own, and lets them end with this process.
    ///   - count: The number of workers, without the ``Options/spares``.
    ///   - name: The name in errors and the log; nil for that of the program.
    ///   - options: How workers and requests are treated.
    ///   - nameServer: Where the workers check in.
    /// - Throws: `PortError.invalidLimit` for a count or an option out of its range.
    public init(
        _ program: WorkerProcess.Configuration = "/proc/self/exe", count: Int, name: String? = nil,
        options: Options = Options(), nameServer: PortNameServer = .shared
    ) throws(PortError) {
        try PortError.check("count", count, in: 1...10_000)
        try options.check()
        let path = program.executable == "/proc/self/exe" ? CommandLine.arguments.first ?? "" : program.executable
        self.name = name ?? path.split(separator: "/").last.map { String($0) } ?? path
        self.program = program
        self.options = options
        self.nameServer = nameServer
        let state = State(
            name: self.name, count: count, spares: options.spares, queueLimit: options.queueLimit,
            requestsPerWorker: options.requestsPerWorker, mostRequests: options.mostRequests)
        self.count = count
        let workers = [PoolWorker?](repeating: nil, count: count + options.spares)
        guarded = Lock(Guarded(state: state, history: RestartHistory(options.intensity), workers: workers))
    }

    // MARK: Running

    /// Starts the workers, and looks after them until the pool is stopped, or the calling task is cancelled, which stops the
    /// pool. Returns when all workers have ended. Then the pool may run again.
    /// - Throws: ``WorkerPoolError``: `failed` when the workers have ended too often; `isRunning`.
    public func run() async throws(WorkerPoolError) { try await work(begin()) }

    /// Begins a run, unless the pool runs already.
    private func begin() throws(WorkerPoolError) -> Run {
        // Each worker would start workers without end.
        guard !PoolMember.isMember else { throw .failed(pool: name, reasons: [PoolMember.noProgram]) }
        let (run, isFirst) = guarded.withLock { guarded -> (Run, Bool) in
            if guarded.run.ended.isSet {
                guarded.run = Run()
                guarded.killed = []
                guarded.history = RestartHistory(options.intensity)
                guarded.state.begin()
            }
            return (guarded.run, guarded.run.hasBegun.set(()))
        }
        guard isFirst else { throw .isRunning(pool: name) }
        return run
    }

    /// The whole of a run that has begun.
    private func work(_ run: Run) async throws(WorkerPoolError) {
        do {
            let surroundings = try await PoolSurroundings(options)
            await lookAfterAll(run, surroundings)
            await surroundings.end()
        } catch {
            end(run, with: .failed(pool: name, reasons: ["\(error)"]))
        }
        let reason = guarded.withLock { $0.state.end }
        run.ended.set(())
        if case .failed(let pool, let reasons) = reason { throw .failed(pool: pool, reasons: reasons) }
    }

    private func lookAfterAll(_ run: Run, _ surroundings: PoolSurroundings) async {
        await withDiscardingTaskGroup { group in
            for member in 0..<count + options.spares {
                group.addTask { await self.look(after: member, run, surroundings) }
            }
            // Nil in a cancelled task.
            if await run.stopping.wait() == nil { end(run, with: .stopped(pool: name)) }
            for worker in guarded.withLock({ $0.workers }) { worker?.end(.stopped) }
            // Workers that are being started are killed.
            group.cancelAll()
        }
    }

    /// Stops the pool: requests that wait for a worker are refused, and the workers get SIGTERM, upon which a
    /// ``WorkerProgram`` answers what it has taken. The pool kills workers that are still there after the stop time.
    /// - Returns: The workers that had to be killed.
    @discardableResult
    public nonisolated(nonsending) func stop() async -> [String] {
        let run = guarded.withLock { $0.run }
        end(run, with: .stopped(pool: name))
        // Also in a cancelled task.
        if run.hasBegun.isSet { _ = await Task { await run.ended.wait() }.value }
        return guarded.withLock { $0.killed }
    }

    /// Takes no further requests.
    private func end(_ run: Run, with error: WorkerPoolError) {
        grant { $0.run === run ? $0.state.end(error) : [] }
        run.stopping.set(())
    }

    /// The workers that run, and what they do.
    public var workers: [WorkerStatus] {
        guarded.withLock { guarded in
            guarded.workers.enumerated().compactMap { member, worker in
                guard let worker else { return nil }
                return WorkerStatus(
                    name: worker.name, pid: worker.process.pid, requestsInProgress: guarded.state.busy(member),
                    requests: guarded.state.count(member), isSpare: guarded.state.isSpare(member))
            }
        }
    }

    /// The number of requests that wait for a worker.
    public var waitingRequests: Int { guarded.withLock { $0.state.waitingCount } }

    /// Runs the workers of one member, one after the other.
    private func look(after member: Int, _ run: Run, _ surroundings: PoolSurroundings) async {
        var backOff = BackOff(options.backOff)
        while !run.stopping.isSet {
            let end: WorkerEnd
            let name: String
            switch await launch(surroundings) {
            case .success(let worker):
                let hasWorked: Bool
                name = worker.name
                (end, hasWorked) = await serve(worker, as: member)
                if hasWorked { backOff.reset() }
            case .failure(let failure): (name, end) = (failure.worker, failure.end)
            }
            if Task.isCancelled || run.stopping.isSet { return }
            if !end.isPlanned {
                log.warning("\(name) \(end)")
                let reasons = guarded.withLock { $0.history.note("\(name) \(end)", at: .now) }
                if let reasons { return self.end(run, with: .failed(pool: self.name, reasons: reasons)) }
            }
            _ = await run.stopping.wait(until: .now + backOff.next())
        }
    }

    private struct LaunchFailure: Error {
        let worker: String
        let end: WorkerEnd
    }

    private func launch(_ surroundings: PoolSurroundings) async -> Result<PoolWorker, LaunchFailure> {
        let number = guarded.withLock { guarded in
            guarded.startCount += 1
            return guarded.startCount
        }
        let name = "worker \(number) of \(self.name)"
        do {
            return .success(try await PoolWorker.launch(name, program, options, surroundings, nameServer))
        } catch {
            return .failure(LaunchFailure(worker: name, end: .notStarted("\(error)")))
        }
    }

    /// Runs a worker to its end.
    /// - Returns: How it has ended, and whether it has had a request.
    private func serve(_ worker: PoolWorker, as member: Int) async -> (WorkerEnd, hasWorked: Bool) {
        worker.beforeEnd { [weak self, weak worker] in
            self?.grant { guarded in
                // The member may have another worker.
                guarded.workers[member] === worker ? guarded.state.end(member) : []
            }
        }
        let isStopped = guarded.withLock { guarded in
            guarded.workers[member] = worker
            return guarded.state.end != nil
        }
        grant { $0.state.start(worker, as: member) }
        if isStopped { worker.end(.stopped) }
        let end = await worker.watch { [weak self] in (self?.guarded.withLock { $0.state.busy(member) } ?? 0) > 0 }
        var hasWorked = false
        grant { guarded in
            guarded.workers[member] = nil
            if worker.hadToBeKilled { guarded.killed.append(worker.name) }
            hasWorked = guarded.state.count(member) > 0
            return guarded.state.end(member)
        }
        return (end, hasWorked)
    }

    /// Changes the state with the lock held, and then resumes the requests that get something.
    private func grant(_ change: (inout Guarded) -> [State.Grant]) {
        let granted = guarded.withLock { guarded in guarded.granted(change(&guarded)) }
        for (waiter, outcome) in granted { waiter.set(outcome) }
    }

    // MARK: Requests

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
        let deadline = ContinuousClock.now + timeout
        let keySlot = key.map { slot(of: $0) }
        var endedWorkers = 0
        while true {
            let lease = try await acquire(keySlot, before: deadline, timeout)
            do {
                let reply = try await lease.worker.client.request(request, timeout: deadline - .now)
                leave(lease)
                return reply
            } catch {
                switch PoolFailure(error, of: lease.worker) {
                case .answered:
                    leave(lease)
                    throw error
                case .timedOut(let wasHandled):
                    leaveLater(lease)
                    throw WorkerPoolError.timedOut(pool: name, after: timeout, wasHandled: wasHandled)
                case .unknown:
                    leaveLater(lease)
                    throw error
                case .notHandled:
                    // The worker ends, most likely in order.
                    lease.worker.isLeaving()
                    leave(lease)
                case .unanswered:
                    guard let end = await lease.worker.endSoon() else {
                        leaveLater(lease)
                        throw error
                    }
                    try leave(lease, end, &endedWorkers, retries, until: deadline)
                case .workerGone:
                    let end = await lease.worker.endAfterLoss()
                    try leave(lease, end, &endedWorkers, retries, until: deadline)
                }
            }
        }
    }

    /// The worker has ended with the request.
    /// - Throws: ``WorkerPoolError/workerEnded(worker:_:)`` unless the request goes to another worker.
    private func leave(
        _ lease: State.Lease, _ end: WorkerEnd, _ endedWorkers: inout Int, _ retries: Int,
        until deadline: ContinuousClock.Instant
    ) throws {
        leave(lease)
        endedWorkers += 1
        guard endedWorkers <= min(retries, 1), deadline > .now else {
            throw WorkerPoolError.workerEnded(worker: lease.worker.name, end)
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
        let lease = try await acquire(key.map { slot(of: $0) }, before: .now + timeout, timeout)
        do {
            let result = try await body(lease.worker.client)
            leaveLater(lease)
            return result
        } catch {
            let end: WorkerEnd? =
                switch PoolFailure(error, of: lease.worker) {
                case .workerGone: await lease.worker.endAfterLoss()
                case .unanswered, .notHandled: await lease.worker.endSoon()
                case .answered, .timedOut, .unknown: nil
                }
            guard let end else {
                leaveLater(lease)
                throw error
            }
            leave(lease)
            throw WorkerPoolError.workerEnded(worker: lease.worker.name, end)
        }
    }

    private func slot(of key: any Hashable & Sendable) -> Int {
        Int(UInt(bitPattern: key.hashValue) % UInt(count))
    }

    /// Suspends until there is a worker.
    private nonisolated(nonsending) func acquire(
        _ slot: Int?, before deadline: ContinuousClock.Instant, _ timeout: Duration
    ) async throws -> State.Lease {
        try Task.checkCancellation()
        let (arrival, waiter) = guarded.withLock { guarded -> (State.Arrival, Waiter?) in
            let arrival = guarded.state.arrive(for: slot)
            guard case .wait(let ticket) = arrival else { return (arrival, nil) }
            let waiter = Waiter()
            guarded.waiters[ticket] = waiter
            return (arrival, waiter)
        }
        switch arrival {
        case .go(let lease): return lease
        case .refuse(let error): throw error
        case .wait(let ticket):
            if let outcome = await waiter?.wait(until: deadline) {
                return try outcome.get()
            }
            let isWithdrawn = guarded.withLock { guarded in
                guarded.waiters[ticket] = nil
                return guarded.state.withdraw(ticket)
            }
            // A worker that came at the last moment is not needed.
            if !isWithdrawn, let outcome = await Task(operation: { await waiter?.wait() }).value,
                case .success(let lease) = outcome
            {
                leave(lease)
            }
            try Task.checkCancellation()
            throw WorkerPoolError.timedOut(pool: name, after: timeout, wasHandled: false)
        }
    }

    /// The request is done.
    private func leave(_ lease: State.Lease) {
        var isSpent = false
        grant { guarded in
            let left = guarded.state.leave(lease)
            isSpent = left.isSpent
            return left.next.map { [$0] } ?? []
        }
        if isSpent { lease.worker.end(.requestLimit(options.mostRequests ?? 0)) }
    }

    /// The asker has gone, and the handler may go on.
    private func leaveLater(_ lease: State.Lease) {
        Task {
            await lease.worker.becomeFree()
            leave(lease)
        }
    }
}

/// The state of a worker, as the error of its request shows it.
private enum PoolFailure {
    /// The worker is done with the request.
    case answered
    case timedOut(wasHandled: Bool)
    /// The worker may be busy with the request.
    case unknown
    /// Nobody has handled the request.
    case notHandled
    /// The worker has ended, or its handler has let the request go.
    case unanswered
    /// The worker has ended, and may have handled the request.
    case workerGone

    init(_ error: any Error, of worker: PoolWorker) {
        guard let error = error as? PortError, error.port?.pid == worker.process.pid else {
            self = error is CancellationError || error is StreamIdleTimeout ? .unknown : .answered
            return
        }
        self =
            switch error {
            case .isInvalid, .refused, .cannotConnect: .notHandled
            case .becameInvalid: .workerGone
            case .unanswered: .unanswered
            case .receiveTimedOut: .timedOut(wasHandled: true)
            case .sendTimedOut: .timedOut(wasHandled: false)
            case .connectionLost: .unknown
            default: .answered
            }
    }
}
