import Glibc
import RunLoopLocks
import RunLoops
import TypedPorts

/// The options of a pool that concern each worker.
protocol WorkerOptions: Sendable {
    var requestsPerWorker: Int { get }
    var memoryLimit: Int? { get }
    var startTime: Duration { get }
    var hangTime: Duration { get }
    var pingPeriod: Duration? { get }
    var pingTime: Duration { get }
    var stopTime: Duration { get }
}

/// One worker of a pool, from its start to its end.
final class PoolWorker: Sendable {
    /// With the process's number.
    let name: String
    let process: WorkerProcess
    let client: RequestClient
    private let options: any WorkerOptions
    private let state = Lock(State())
    private let ended = OneShot<WorkerEnd>()
    /// How the worker has ended, for its requests: known before its end when it crashes, because it may write a backtrace.
    private let cause = OneShot<WorkerEnd>()

    private struct State {
        /// Why the pool ends the worker; nil when it does not.
        var reason: WorkerEnd?
        /// Called when the worker must get no more requests.
        var willEnd: (@Sendable () -> Void)?
        /// Whether it has ended, or is about to.
        var isEnding = false
        /// Whether the worker has refused a request.
        var isLeaving = false
        /// Whether the worker did not end in time.
        var isKilled = false
    }

    static func launch(
        _ title: WorkerTitle, _ program: WorkerProcess.Configuration, _ options: any WorkerOptions,
        _ surroundings: PoolSurroundings, _ nameServer: PortNameServer
    ) async throws -> PoolWorker {
        try Task.checkCancellation()
        var program = program
        if program.processGroup == .inherited { program.processGroup = .own }
        program.endsWithLauncher = true
        program.reportsCrashes = true
        program.title = title.commandLine
        program.environment = program.environment.updating(title.variables(program.executable))
            .updating([PoolMember.variable: "\(options.requestsPerWorker)"])
        let process = try surroundings.start(program, of: "\(title)", nameServer)
        do {
            let checkIn = OneShot<Result<MachPort.SendRight, CheckInError>>()
            process.onCheckIn { checkIn.set($0) }
            guard let outcome = await checkIn.wait(within: options.startTime, of: process) else {
                try Task.checkCancellation()
                throw CheckInError.timedOut(worker: "worker “\(program.executable)”")
            }
            _ = try outcome.get()
            return try PoolWorker("\(title)", process, options)
        } catch {
            process.send(signal: SIGKILL)
            // Also in a cancelled task.
            _ = await Task { try? await process.waitForExit(before: .now + .seconds(2)) }.value
            throw error
        }
    }

    private init(_ name: String, _ process: WorkerProcess, _ options: any WorkerOptions) throws(CheckInError) {
        self.name = "\(name) (pid \(process.pid))"
        self.process = process
        self.options = options
        client = try process.client()
        process.onCrash { [weak self] in self?.crashed(by: $0) }
        process.onExit { [weak self] in self?.ended(with: $0) }
    }

    private func ended(with status: ThreadRunLoop.ExitStatus) {
        // First, because a request that knows the cause is sent again at once.
        note(nil)
        let end = state.withLock { $0.reason } ?? .ended(status)
        cause.set(end)
        ended.set(end)
    }

    /// The time in which a worker that crashes has to end. Swift itself ends its backtrace after 30 s.
    private static let traceTime = Duration.seconds(60)

    private func crashed(by signal: Int32) {
        let end = WorkerEnd.ended(.signaled(signal))
        note(end)
        cause.set(end)
        killLater(after: Self.traceTime, end)
    }

    /// Whether the pool has killed a worker that it had asked to end.
    var hadToBeKilled: Bool { state.withLock { $0.isKilled } }

    // MARK: Ending

    /// Kills the worker, unless it ends by itself.
    private func kill(_ reason: WorkerEnd) {
        if cause.isSet { return }
        note(reason)
        process.send(signal: SIGKILL)
    }

    /// Asks the worker to end, and kills it when it has not ended in time.
    func end(_ reason: WorkerEnd) {
        note(reason)
        process.send(signal: SIGTERM)
        killLater(after: options.stopTime, reason)
    }

    private func killLater(after time: Duration, _ reason: WorkerEnd) {
        Task {
            if await ended.wait(within: time, of: process) != nil { return }
            note(reason)
            state.withLock { $0.isKilled = true }
            process.send(signal: SIGKILL)
        }
    }

    /// Calls the closure before the pool ends the worker, or when it has ended, or at once afterwards. The worker must get no
    /// request then.
    func beforeEnd(_ handler: @escaping @Sendable () -> Void) {
        let isEnding = state.withLock { state in
            if !state.isEnding { state.willEnd = handler }
            return state.isEnding
        }
        if isEnding { handler() }
    }

    /// The worker has ended, or is about to. The first reason counts.
    private func note(_ reason: WorkerEnd?) {
        let willEnd = state.withLock { state in
            if state.reason == nil { state.reason = reason }
            state.isEnding = true
            return state.willEnd.take()
        }
        willEnd?()
    }

    /// The sign of the worker's end that a request has seen.
    enum Loss {
        /// Its port has ended.
        case certain
        /// It has let the request go.
        case possible

        /// How long the worker may live on.
        var patience: Duration { self == .certain ? .seconds(2) : .milliseconds(200) }
    }

    /// How the worker has ended; nil when it lives on. Waits also in a cancelled task.
    nonisolated(nonsending) func end(after loss: Loss) async -> WorkerEnd? {
        begin(loss)
        let end = await Task(operation: { await cause.wait(within: loss.patience, of: process) }).value
        if let end { return end }
        guard kill(after: loss) else { return nil }
        return await Task { await cause.wait() }.value
    }

    /// How the worker has ended; nil when it lives on. Blocks the thread.
    func blockUntilEnd(after loss: Loss) -> WorkerEnd? {
        begin(loss)
        if let end = cause.block(within: loss.patience, of: process) { return end }
        return kill(after: loss) ? cause.block(until: nil) : nil
    }

    private func begin(_ loss: Loss) { if loss == .certain { note(nil) } }

    /// Kills a worker that lives on without its port.
    private func kill(after loss: Loss) -> Bool {
        if loss == .certain { kill(.lingering(loss.patience)) }
        return loss == .certain
    }

    /// The worker has refused a request, because it is about to end. It gets no more requests, and is killed when it takes
    /// too long.
    func isLeaving() {
        // A worker that crashes has its time for a backtrace.
        if cause.isSet { return }
        let isFirst = state.withLock { state in !exchange(&state.isLeaving, with: true) }
        note(nil)
        if isFirst { killLater(after: options.stopTime, .lingering(options.stopTime)) }
    }

    // MARK: Looking after it

    /// Looks after the worker until its end.
    /// - Parameter isBusy: Whether the worker has requests.
    func watch(_ isBusy: @escaping @Sendable () -> Bool) async -> WorkerEnd {
        let looks = Task {
            await withDiscardingTaskGroup { group in
                if let limit = options.memoryLimit { group.addTask { await self.watchMemory(limit) } }
                if let period = options.pingPeriod { group.addTask { await self.ping(each: period, isBusy) } }
            }
        }
        defer { looks.cancel() }
        // Also in a cancelled task.
        return await Task { await ended.wait() }.value ?? .ended(.unknown)
    }

    private static let lookPeriod = Duration.milliseconds(250)

    private func watchMemory(_ limit: Int) async {
        while await isThere(after: Self.lookPeriod) {
            if let memory = ProcessStatus.memory(of: process.pid), memory > limit { return kill(.memoryLimit(limit)) }
        }
    }

    private func ping(each period: Duration, _ isBusy: @Sendable () -> Bool) async {
        while await isThere(after: period) {
            if isBusy() { continue }
            if await !answers(PoolPing(), within: options.pingTime), !isBusy() {
                return kill(.silent(options.pingTime))
            }
        }
    }

    /// - Returns: False when the worker has ended, or the task was cancelled.
    private func isThere(after time: Duration) async -> Bool {
        await ended.wait(until: .now + time) == nil && !Task.isCancelled
    }

    /// Returns when the worker has a place for a request again whose asker has left. Kills a worker that stays busy.
    nonisolated(nonsending) func becomeFree() async {
        if await !answers(PoolTurn(), within: options.hangTime) { kill(.hung(options.hangTime)) }
    }

    /// Asks the worker, and waits for some time in which this process hears it.
    /// - Returns: False when the worker has not answered, lives on, and the task was not cancelled.
    private nonisolated(nonsending) func answers(_ question: some PortRequest, within time: Duration) async -> Bool {
        let outcome = OneShot<Bool>()
        let asking = Task {
            do {
                try await ask(question)
                outcome.set(true)
            } catch {
                // Other errors say that the worker ends.
                outcome.set(!PortError.isTimeout(error))
            }
        }
        defer { asking.cancel() }
        return await outcome.wait(within: time, of: process) ?? Task.isCancelled
    }

    /// Asks again while there is no connection: the worker may be stopped.
    private nonisolated(nonsending) func ask(_ question: some PortRequest) async throws {
        while true {
            do {
                _ = try await client.request(question, timeout: Self.longTime)
                return
            } catch PortError.cannotConnect {
                try await Task.sleep(for: .milliseconds(100))
            }
        }
    }

    /// Longer than any worker is waited for.
    private static let longTime = Duration.seconds(1 << 24)
}
