import Glibc
import Ports
import RunLoopLocks
import RunLoops
import Workers

/// One process of a service, from its start to its end, with the port that it has borrowed.
final class ServiceLife: Sendable {
    private struct State {
        /// Whether the process was asked to end.
        var isStopping = false
        /// Whether the service has given its port back.
        var isDone = false
        /// The number of messages that it says it has taken, once it has given its port back.
        var taken: Int?
        /// How the process has ended, for the askers whose requests it had taken.
        var explanation: String?
    }

    private let file: ServiceFile
    private let log: ServiceLog
    private let nameServer: PortNameServer
    let process: WorkerProcess
    private let loan: MachPort.Loan
    /// The port by which the service answers.
    private let desk: MachPort
    private let name: String
    /// Whether a message waited at the port when the process was started.
    private let hadWork: Bool
    /// Called with each phase, in order.
    private let note: @Sendable (ServicePhase) -> Void
    /// Whether the service has taken its port, and not ended before.
    private let isReady = OneShot<Bool>()
    private let state = Lock(State())
    /// Set when the process has ended and the port is back.
    let isOver = OneShot<Void>()

    /// Starts the process.
    init(
        _ name: String, _ file: ServiceFile, _ server: LocalMessagePort, _ log: ServiceLog,
        _ nameServer: PortNameServer, note: @escaping @Sendable (ServicePhase) -> Void
    ) throws {
        (self.name, self.file, self.log, self.nameServer) = (name, file, log, nameServer)
        self.note = note
        var program = file.program
        program.environment = program.environment.updating([ServiceMessage.variable: "1"])
        // A program that never checks in would not notice the activator's end.
        program.endsWithLauncherAtFirst = true
        (program.standardInput, program.standardOutput, program.standardError) = (
            .discard, .file(log.path), .file(log.path)
        )
        desk = try MachPort(nameServer: nameServer)
        hadWork = server.activity.isBusy
        loan = try MachPort.Loan(server.port)
        loan.standby.expectExplanation()
        process = try WorkerProcess.start(program, port: desk.sendRight, nameServer: nameServer)
    }

    deinit { desk.invalidate() }

    /// Asks the process to end, and kills it when it takes too long.
    func stop() {
        let isFirst = state.withLock { !exchange(&$0.isStopping, with: true) }
        guard isFirst else { return }
        process.send(signal: SIGTERM)
        killLater()
    }

    private func killLater() {
        Task { [process, file, weak self] in
            guard try await process.waitForExit(before: .now + file.stopTime) == nil else { return }
            self?.explain("was killed, because it was asked to end, and has not ended for \(file.stopTime)")
            process.send(signal: SIGKILL)
        }
    }

    /// Notes how the process has ended, unless that is known.
    private func explain(_ end: String) {
        let text = "the service “\(name.printable)” (pid \(process.pid)) \(end)"
        state.withLock { $0.explanation = $0.explanation ?? text }
    }

    /// Lends the port to the process, and waits for the end of the process.
    func run() async -> ServiceEnd {
        note(.starting(pid: process.pid))
        // Also in a cancelled task: a process that was asked to end may still have to give its port back.
        let ending = Task { await listenUntilEnd() }
        let failure = await Task { await failureOfStart() }.value
        if failure != nil { process.send(signal: SIGKILL) }
        let status = await ending.value
        explain(failure.map { "has failed: \($0(status))" } ?? "\(status)")
        let (isStopping, isDone, taken) = state.withLock { ($0.isStopping, $0.isDone, $0.taken) }
        if isDone, !isStopping, hadWork, taken == 0 { return .unused }
        if isStopping || isDone { return .orderly }
        return failure.map { .notStarted($0(status) + lastOutput) } ?? .crashed("it \(status)", output: lastOutput)
    }

    /// Lends the port to the process.
    /// - Returns: Nil when the service serves; else the reason, with the status of the process.
    private func failureOfStart() async -> (@Sendable (ThreadRunLoop.ExitStatus) -> String)? {
        let deadline = ContinuousClock.now + file.startTime
        do {
            let right = try await process.checkIn(before: deadline)
            process.outlivesLauncher()
            try await right.send(ServiceMessage.lend(loan.receiveRight, idleTime: file.idleTime), before: deadline)
        } catch CheckInError.timedOut {
            return notTaken
        } catch CheckInError.died {
            return { "it \($0) before it took its port" }
        } catch {
            return { _ in "\(error)" }
        }
        switch await isReady.wait(until: deadline) {
        case true?: return nil
        case false?: return { "it \($0) before it took its port" }
        case nil: return notTaken
        }
    }

    private func notTaken(_: ThreadRunLoop.ExitStatus) -> String {
        "it has not taken its port for \(file.startTime): its main type has to be a ServiceProgram, or to call "
            + "ActivatedService.fromEnvironment"
    }

    /// Hears what the service says until its end, and what it has said before.
    private func listenUntilEnd() async -> ThreadRunLoop.ExitStatus {
        let listening = Task { for await message in desk.messages { await hear(message) } }
        let status = try? await process.waitForExit()
        listening.cancel()
        await listening.value
        while let message = try? await desk.receive(before: .now) { await hear(message) }
        isReady.set(false)
        return status ?? .unknown
    }

    private func hear(_ message: MachPort.Message) async {
        guard message.sender?.pid == process.pid else { return }
        switch message.id {
        case ServiceMessage.ready:
            note(.running(pid: process.pid))
            isReady.set(true)
        case ServiceMessage.giveBack: if let right = message.receiveRight(ofComponent: 0) { await claim(right) }
        default: if let taken = ServiceMessage.taken(message) { state.withLock { $0.taken = taken } }
        }
    }

    private static let claimTime = Duration.seconds(10)

    private func claim(_ right: MachPort.ReceiveRight) async {
        do {
            // The loan has it then.
            let deadline = ContinuousClock.now + Self.claimTime
            _ = try await LocalMessagePort(claiming: right, nameServer: nameServer, before: deadline)
            state.withLock { $0.isDone = true }
            note(.stopping(pid: process.pid))
            killLater()
        } catch {
            Ports.log.warning("the service “\(name)” could not give its port back: \(error)")
        }
    }

    private static let lineCount = 5

    /// The last lines that the process has written, to follow a reason.
    private var lastOutput: String {
        let lines = log.lastLines(Self.lineCount).map { $0.printable }
        return lines.isEmpty ? "" : "; its last lines in \(log.path): \(lines.joined(separator: " | "))"
    }

    /// The time in which the port of a process that has ended comes back.
    private static let patience = Duration.seconds(2)

    /// Takes the port back, when the service has ended, and tells askers how. Waits while somebody else has the port, to
    /// whom the service has passed it.
    /// - Throws: `CancellationError` in a cancelled task, when somebody else has the port; `PortError` when it has ended.
    func takeBack() async throws -> LocalMessagePort {
        // Also in a cancelled task.
        let soon = Task { [loan] in try await loan.takeBack(before: .now + Self.patience) }
        let port: MachPort
        do {
            port = try await soon.value
            port.explain(state.withLock { $0.explanation })
        } catch PortError.receiveTimedOut {
            port = try await takeBackOfHeir()
        }
        return LocalMessagePort(returned: port, nameServer: nameServer)
    }

    /// Takes the port back from the process to which the service has passed it, and of whose end nobody knows more.
    private func takeBackOfHeir() async throws -> MachPort {
        loan.standby.explain(nil)
        do {
            return try await loan.takeBack(before: nil)
        } catch is CancellationError {
            Ports.log.warning("the service “\(name)” has passed its port on, which goes on without its activator")
            throw CancellationError()
        }
    }
}
