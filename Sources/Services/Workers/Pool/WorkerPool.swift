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
    /// One run of the pool, from its start to its end.
    struct Run: Sendable {
        let number: Int
        let hasBegun = OneShot<Void>()
        /// The pool takes no further requests.
        let stopping = OneShot<Void>()
        /// All workers have ended.
        let ended = OneShot<Void>()
    }

    private struct Guarded {
        var run = Run(number: 0)
        var history: RestartHistory
        var startCount = 0
        /// The starts before the present run.
        var formerStarts = 0
        var killed: [String] = []
        /// Why the last worker did not start; nil when one has started since.
        var failure: String?
        /// The workers that have ended in the present run, by the cause.
        var ended: [String: Int] = [:]
        /// The requests that have waited before the present run, and their time.
        var formerWaits = (count: 0, time: Duration.zero)
    }

    /// The name in errors and the log.
    public let name: String
    let count: Int
    let options: Options
    let queue: PoolQueue
    private let program: WorkerProcess.Configuration
    /// Whether the workers are to be processes of this program, without arguments that tell them apart.
    private var startsThisProgram: Bool { program.executable == "/proc/self/exe" && program.arguments.isEmpty }
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
        queue = PoolQueue(
            PoolQueue.State(
                name: self.name, count: count, spares: options.spares, queueLimit: options.queueLimit,
                requestsPerWorker: options.requestsPerWorker, mostRequests: options.mostRequests))
        self.count = count
        guarded = Lock(Guarded(history: RestartHistory(options.intensity)))
    }

    // MARK: Running

    /// Starts the workers, and looks after them until the pool is stopped, or the calling task is cancelled, which stops the
    /// pool. Returns when all workers have ended. Then the pool may run again.
    /// - Throws: ``WorkerPoolError``: `failed` when the workers have ended too often; `isRunning`.
    public func run() async throws(WorkerPoolError) { try await work(begin()) }

    /// Begins a run, unless the pool runs already.
    func begin() throws(WorkerPoolError) -> Run {
        // Each worker would start workers without end.
        guard !PoolMember.isMember, !startsThisProgram || PoolMember.isProgram else {
            throw .failed(pool: name, reasons: [PoolMember.noProgram])
        }
        let (run, isFirst) = guarded.withLock { guarded -> (Run, Bool) in
            if guarded.run.ended.isSet {
                guarded.run = Run(number: queue.begin())
                guarded.killed = []
                guarded.ended = [:]
                guarded.formerWaits = queue.waits
                guarded.formerStarts = guarded.startCount
                guarded.history = RestartHistory(options.intensity)
            }
            return (guarded.run, guarded.run.hasBegun.set(()))
        }
        guard isFirst else { throw .isRunning(pool: name) }
        return run
    }

    /// The whole of a run that has begun.
    func work(_ run: Run) async throws(WorkerPoolError) {
        do {
            let surroundings = try await PoolSurroundings(
                logger: options.output.logger, foldersInside: options.temporaryFolder.parent)
            let endReport = nameServer.report(pool: { self.report })
            await lookAfterAll(run, surroundings)
            endReport()
            await surroundings.end()
        } catch {
            end(run, with: .failed(pool: name, reasons: ["\(error)"]))
        }
        let reason = queue.end
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
            for worker in queue.workers { worker.end(.stopped) }
            // Workers that are being started are killed.
            group.cancelAll()
        }
    }

    /// Stops the pool: requests that wait for a worker are refused, and the workers get SIGTERM, upon which a
    /// ``WorkerProgram`` answers what it has taken. The pool kills workers that are still there after the stop time.
    /// - Returns: The workers that had to be killed.
    @discardableResult
    public nonisolated(nonsending) func stop() async -> [String] {
        let run = beginStop()
        // Also in a cancelled task.
        if run.hasBegun.isSet { _ = await Task { await run.ended.wait() }.value }
        return killed
    }

    /// Lets the present run end.
    func beginStop() -> Run {
        let run = guarded.withLock { $0.run }
        end(run, with: .stopped(pool: name))
        return run
    }

    /// The workers that a stop had to kill.
    var killed: [String] { guarded.withLock { $0.killed } }

    /// Takes no further requests.
    func end(_ run: Run, with error: WorkerPoolError) {
        queue.end(run.number, with: error)
        run.stopping.set(())
    }

    /// Why there is no worker; nil when there is one, or none has failed to start.
    var reasonForNoWorker: String? { queue.workers.isEmpty ? guarded.withLock { $0.failure } : nil }

    /// The workers that run, and what they do.
    public var workers: [WorkerStatus] { queue.statuses }

    /// The pool as `portctl` shows it.
    private var report: PoolReport {
        let (starts, ended, former) = guarded.withLock {
            ($0.startCount - $0.formerStarts, $0.ended, $0.formerWaits)
        }
        let waits = queue.waits
        var tally = PoolReport.Tally()
        (tally.waited, tally.waitTime, tally.ended) = (waits.count - former.count, waits.time - former.time, ended)
        return PoolReport(
            name: name, count: count, spares: options.spares, waiting: waitingRequests,
            restarts: max(0, starts - count - options.spares),
            workers: workers.map { worker in
                PortInfo.Worker(
                    pid: worker.pid, busy: worker.requestsInProgress, requests: worker.requests,
                    isSpare: worker.isSpare)
            }, tally: tally)
    }

    /// The number of requests that wait for a worker.
    public var waitingRequests: Int { queue.waitingCount }

    /// Runs the workers of one member, one after the other.
    private func look(after member: Int, _ run: Run, _ surroundings: PoolSurroundings) async {
        var backOff = BackOff(options.backOff)
        while !run.stopping.isSet {
            let end: WorkerEnd
            let name: String
            switch await launch(surroundings) {
            case .success(let worker):
                guarded.withLock { $0.failure = nil }
                let hasWorked: Bool
                name = worker.name
                (end, hasWorked) = await serve(worker, as: member)
                if hasWorked { backOff.reset() }
            case .failure(let failure):
                (name, end) = (failure.worker, failure.end)
                guarded.withLock { $0.failure = "\(name) \(end)" }
            }
            if Task.isCancelled || run.stopping.isSet { return }
            guarded.withLock { $0.ended[end.cause, default: 0] += 1 }
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
        let title = WorkerTitle(pool: name, number: number)
        do {
            return .success(try await PoolWorker.launch(title, program, options, surroundings, nameServer))
        } catch {
            return .failure(LaunchFailure(worker: "\(title)", end: .notStarted("\(error)")))
        }
    }

    /// Runs a worker to its end.
    /// - Returns: How it has ended, and whether it has had a request.
    private func serve(_ worker: PoolWorker, as member: Int) async -> (WorkerEnd, hasWorked: Bool) {
        queue.add(worker, as: member)
        worker.beforeEnd { [queue, weak worker] in if let worker { queue.end(worker, as: member) } }
        // The stop may have been faster.
        if queue.end != nil { worker.end(.stopped) }
        let end = await worker.watch { [queue] in queue.isBusy(member) }
        if worker.hadToBeKilled { guarded.withLock { $0.killed.append(worker.name) } }
        return (end, queue.remove(member))
    }
}

extension Supervisor.Child {
    /// Makes a child of a pool.
    public init(_ pool: WorkerPool, restart: Supervisor.Restart = .permanent) {
        self.init(pool.name, restart: restart) { try await pool.run() }
    }
}
