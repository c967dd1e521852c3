import Ports
import RunLoopLocks
import Workers

/// Keeps the port of one service: waits for a message, starts the service, lends it the port, and takes the port back.
final class ServiceKeeper: Sendable {
    let name: String
    private let folder: ServiceFolder
    private let nameServer: PortNameServer
    private let state: Lock<State>
    /// Set when the name was taken, or could not be, or nobody keeps the service any more.
    let hasBegun = OneShot<Void>()

    private struct State {
        var phase = ServicePhase.waiting
        /// Set at the next change of the phase.
        var change = OneShot<Void>()
        var log: ServiceLog
        var description = ""
        var lastFailure: String?
        var startCount = 0
        var since = ContinuousClock.now
        /// Whether the service is to be started without a message.
        var isWanted = false
        var life: ServiceLife?
        /// The wait for a reason to start the service.
        var wait: Task<Void, any Error>?
        /// How often the service has served.
        var runCount = 0

        /// - Returns: To be set after the lock.
        mutating func begin(_ phase: ServicePhase) -> OneShot<Void> {
            (self.phase, since) = (phase, .now)
            switch phase {
            case .failed(let reason): lastFailure = reason
            case .running:
                (lastFailure, isWanted) = (nil, false)
                runCount += 1
            case .elsewhere, .unusable: isWanted = false
            case .waiting, .starting, .stopping: break
            }
            return exchange(&change, with: OneShot())
        }
    }

    init(_ name: String, _ folder: ServiceFolder, logs: String?, _ nameServer: PortNameServer) {
        (self.name, self.folder, self.nameServer) = (name, folder, nameServer)
        state = Lock(State(log: ServiceLog(of: name, in: logs)))
    }

    // MARK: Looking

    var phase: ServicePhase { state.withLock { $0.phase } }
    var startCount: Int { state.withLock { $0.startCount } }

    var status: ServiceStatus {
        state.withLock { state in
            ServiceStatus(
                name: name, phase: state.phase, description: state.description, lastFailure: state.lastFailure,
                file: folder.file(of: name), log: state.log.path, startCount: state.startCount,
                timeInPhase: state.since.duration(to: .now))
        }
    }

    private func set(_ phase: ServicePhase) {
        state.withLock { $0.begin(phase) }.set(())
        hasBegun.set(())
    }

    /// Sets a phase of a process, unless the process has ended, or was asked to end.
    private func note(_ phase: ServicePhase) {
        let change = state.withLock { state -> OneShot<Void>? in
            guard state.life?.process.pid == phase.pid, phase != state.phase else { return nil }
            if case .stopping = state.phase { return nil }
            return state.begin(phase)
        }
        change?.set(())
    }

    // MARK: Commands

    /// Checks the file, and ends the pause after a failure.
    /// - Returns: The error of the file.
    func readAgain() -> ServiceFileError? {
        let pause = state.withLock { state in
            if case .failed = state.phase { return state.wait }
            return nil
        }
        defer { pause?.cancel() }
        do throws(ServiceFileError) {
            let file = try folder.read(name)
            state.withLock { $0.description = file.description }
            return nil
        } catch {
            return error
        }
    }

    /// Starts the service unless it runs.
    /// - Returns: The phase when the service runs, or has failed to.
    nonisolated(nonsending) func start() async throws(CancellationError) -> ServicePhase {
        let (wait, runCount) = state.withLock { state in
            switch state.phase {
            // Otherwise the service would start again when it has ended.
            case .running, .elsewhere, .unusable: break
            case .waiting, .starting, .stopping, .failed: state.isWanted = true
            }
            return (state.wait, state.runCount)
        }
        wait?.cancel()
        while true {
            let (phase, isWanted, hasRun, change) = state.withLock {
                ($0.phase, $0.isWanted, $0.runCount != runCount, $0.change)
            }
            switch phase {
            case .running, .elsewhere, .unusable: return phase
            // The reason may be an older one's.
            case .failed: if !isWanted { return phase }
            // A service may have ended before anybody looks.
            case .waiting, .starting, .stopping: if hasRun { return phase }
            }
            guard await change.wait() != nil else { throw CancellationError() }
        }
    }

    /// Asks the service to end, and kills it when it takes too long. The next message starts it again.
    nonisolated(nonsending) func stop() async throws(CancellationError) -> ServicePhase {
        // Before that, nobody knows whether another process has the service.
        guard await hasBegun.wait() != nil else { throw CancellationError() }
        let life = state.withLock { state in
            state.isWanted = false
            return state.life
        }
        guard let life else { return phase }
        note(.stopping(pid: life.process.pid))
        life.stop()
        // Messages that wait may have started it again.
        guard await life.isOver.wait() != nil else { throw CancellationError() }
        return phase
    }

    // MARK: Keeping

    /// Keeps the port until the task is cancelled; then ends the service and the port.
    func run() async {
        defer { hasBegun.set(()) }
        while !Task.isCancelled, var server = await takeName() {
            do {
                try await keep(&server)
            } catch is CancellationError {
                return
            } catch {
                log.error("the port of the service “\(name)” has ended: \(error)")
            }
        }
    }

    /// The time between attempts to take a name.
    private static let patience = Duration.seconds(1)

    /// - Returns: Nil when the task was cancelled.
    private func takeName() async -> LocalMessagePort? {
        // An ended port may keep its name for a while, if it goes on elsewhere.
        var backOff = BackOff(.milliseconds(10)...Self.patience)
        while !Task.isCancelled {
            do {
                // The next start tells what is wrong with the file.
                let file = try? folder.read(name)
                if let file { state.withLock { $0.description = file.description } }
                return try LocalMessagePort(name: name, nameServer: nameServer, queueLimit: file?.queueLimit ?? 1000)
            } catch .nameInUse(_, let owner) {
                set(.elsewhere(pid: owner.pid))
                try? await nameServer.waitForEnd(ofName: name, before: .now + .seconds(60))
                try? await Task.sleep(for: backOff.next())
            } catch {
                set(.unusable(reason: "\(error)"))
                try? await Task.sleep(for: Self.patience)
            }
        }
        return nil
    }

    /// - Parameter server: The port; replaced when it comes back, because a former one keeps all that came after it.
    /// - Throws: `CancellationError`; `PortError` when the port has ended.
    private func keep(_ server: inout LocalMessagePort) async throws {
        var policy = StartPolicy()
        defer { server.invalidate() }
        set(.waiting)
        while true {
            try await waitForReason(at: server)
            let start = ContinuousClock.now
            let (returned, end) = try await serve(server)
            server = returned
            if let (reason, pause) = policy.ended(end, after: .now - start, at: .now) {
                try await refuse(server, reason, for: pause)
            }
        }
    }

    /// Returns when a message waits, or somebody wants the service to run.
    private func waitForReason(at server: LocalMessagePort) async throws {
        try await waitUnlessWanted { try await server.port.waitForMessage() }
    }

    /// Gives all requests the reason of a failure for some time, unless somebody wants the service to run.
    private func refuse(_ server: LocalMessagePort, _ reason: String, for time: Duration) async throws {
        state.withLock { $0.isWanted = false }
        set(.failed(reason: reason))
        log.warning("the service “\(name)” has failed: \(reason)")
        let failure = RequestFailure("the service “\(name)” has failed: \(reason)")
        let answering = Task { try await server.serveMessages { _ in throw failure } }
        try await waitUnlessWanted { try await Task.sleep(for: time) }
        answering.cancel()
        try? await answering.value
        set(.waiting)
    }

    /// - Throws: What the wait throws, and `CancellationError`.
    private func waitUnlessWanted(_ wait: @escaping @Sendable () async throws -> Void) async throws {
        let wait = Task { try await wait() }
        let isWanted = state.withLock { state in
            state.wait = wait
            return state.isWanted
        }
        if isWanted { wait.cancel() }
        let result = await withTaskCancellationHandler {
            await wait.result
        } onCancel: {
            wait.cancel()
        }
        state.withLock { $0.wait = nil }
        try Task.checkCancellation()
        do { try result.get() } catch is CancellationError {}
    }

    /// Starts the service, lends it the port, and waits until it has ended and the port is back.
    private func serve(_ server: LocalMessagePort) async throws -> (LocalMessagePort, ServiceEnd) {
        let life: ServiceLife
        do {
            let file = try folder.read(name)
            var log = state.withLock { $0.log }
            try log.prepare()
            life = try ServiceLife(name, file, server, log, nameServer) { [weak self] in self?.note($0) }
            state.withLock { ($0.log, $0.description) = (log, file.description) }
        } catch {
            return (server, .notStarted("\(error)"))
        }
        state.withLock { state in
            (state.life, state.isWanted) = (life, false)
            state.startCount += 1
        }
        defer {
            state.withLock { $0.life = nil }
            set(.waiting)
            life.isOver.set(())
        }
        let end = await withTaskCancellationHandler {
            await life.run()
        } onCancel: {
            life.stop()
        }
        return (try await life.takeBack(), end)
    }
}
