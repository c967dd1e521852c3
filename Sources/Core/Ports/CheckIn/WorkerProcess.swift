import CRunLoopShims
import Glibc
import RunLoops

/// A child process that checks in with a port of its own, and gets the right to a port of the launcher.
///
/// The kernel's credentials prove the child's identity. The release of the object does not end the child.
public final class WorkerProcess: Sendable {
    /// The child's process id.
    public let pid: pid_t
    /// Whether the worker is killed when this process ends before ``outlivesLauncher()``.
    private let isGuardedAtFirst: Bool

    private let descriptor: Int32
    private let expectation: CheckInExpectation
    private let housekeeping: Housekeeping
    private let ended = Promise<ThreadRunLoop.ExitStatus>()
    /// The signal of a crash that the worker has reported.
    private let crashed = Promise<Int32>()

    /// Starts a program, and blocks until the program has checked in. A worker that is late or refused is killed.
    ///
    ///     let port = try MachPort { message in print("got", message.id) }
    ///     try port.schedule(in: .main)
    ///     let worker = try WorkerProcess.launch(.init("/usr/bin/indexer", ["--quick"]), port: port.sendRight)
    /// - Parameters:
    ///   - configuration: The program.
    ///   - port: The right that `CheckIn.complete(with:before:)` returns to the worker. Nil for a right that shows the
    ///     end of this process, and takes no requests.
    ///   - nameServer: Its directory is for the check-in, and the worker's default.
    ///   - deadline: The end of the wait for the check-in.
    /// - Throws: ``CheckInError``.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public static func launch(
        _ configuration: Configuration, port: MachPort.SendRight? = nil, nameServer: PortNameServer = .shared,
        before deadline: ContinuousClock.Instant? = .now + .seconds(10)
    ) throws(CheckInError) -> WorkerProcess {
        let worker = try start(configuration, port: port, nameServer: nameServer)
        _ = try worker.checkIn(before: deadline)
        return worker
    }

    /// Starts a program, and suspends the task until the program has checked in. A worker that is late or refused is
    /// killed.
    /// - Throws: ``CheckInError``. `CancellationError`: the worker is killed.
    public nonisolated(nonsending) static func launch(
        _ configuration: Configuration, port: MachPort.SendRight? = nil, nameServer: PortNameServer = .shared,
        before deadline: ContinuousClock.Instant? = .now + .seconds(10)
    ) async throws -> WorkerProcess {
        try Task.checkCancellation()
        let worker = try start(configuration, port: port, nameServer: nameServer)
        do {
            _ = try await worker.checkIn(before: deadline)
            return worker
        } catch {
            worker.send(signal: SIGKILL)
            throw error
        }
    }

    /// Starts a program, and returns at once. `checkIn(before:)` and ``onCheckIn(_:)`` report the check-in. The
    /// parameters are those of `launch(_:port:nameServer:before:)`.
    /// - Throws: ``CheckInError``: `notLaunched`, or `port`.
    public static func start(
        _ configuration: Configuration, port: MachPort.SendRight? = nil, nameServer: PortNameServer = .shared
    ) throws(CheckInError) -> WorkerProcess {
        try checkingIn(Fork.check)
        let desk = nameServer.runtime.checkInDesk
        let worker = "worker “\(configuration.executable)”"
        let (name, expectation, checkIn) = try checkingIn { () throws(PortError) in
            let name = try desk.registeredName(nameServer)
            let parent = try desk.parent(port, nameServer)
            let expectation = CheckInExpectation(worker, pid: nil, parent: parent)
            return (name, expectation, try desk.expect(expectation, nameServer))
        }
        var variables = [
            CheckIn.variable: "\(String(checkIn.number, radix: 16)) \(name)", "PORTS_DIRECTORY": nameServer.path,
        ]
        if configuration.reportsCrashes { variables[CrashReport.variable] = "\(CrashReport.descriptor)" }
        do throws(CheckInError) {
            let crash = try checkingIn { () throws(PortError) in
                try configuration.reportsCrashes
                    ? runLoop { () throws(RunLoopError) in try EventDescriptor() } : nil
            }
            let pid = try expectation.start { () throws(CheckInError) in
                try configuration.spawn(adding: variables, crash: crash?.descriptor)
            }
            let hasGroup = configuration.processGroup != .inherited
            return try WorkerProcess(
                pid, expectation, crash, nameServer.runtime, endsGroup: hasGroup && configuration.endsWithLauncher,
                isGuarded: hasGroup && (configuration.endsWithLauncher || configuration.endsWithLauncherAtFirst)
            ) { desk.forget(checkIn) }
        } catch {
            desk.forget(checkIn)
            throw error
        }
    }

    private init(
        _ pid: pid_t, _ expectation: CheckInExpectation, _ crash: EventDescriptor?, _ runtime: PortRuntime,
        endsGroup: Bool, isGuarded: Bool, forget: @escaping @Sendable () -> Void
    ) throws(CheckInError) {
        let housekeeping = runtime.housekeeping
        self.pid = pid
        isGuardedAtFirst = isGuarded && !endsGroup
        self.expectation = expectation
        self.housekeeping = housekeeping
        descriptor = crl_pidfd_open(pid)
        let crash = crash.map { crashSource($0, runtime) }
        do {
            guard descriptor >= 0 else { throw PortError.last("pidfd_open") }
            // The source keeps the worker until the child has ended.
            let whenEnded: @Sendable (Bool) -> Void = { isUncollected in
                if endsGroup, isUncollected { kill(-pid, SIGKILL) }
                if isGuarded { GroupGuard.shared.remove(pid, housekeeping) }
            }
            let end = try ThreadRunLoop.Source1.child(pid, whenEnded: whenEnded) { status in
                crash?.invalidate()
                forget()
                // The check-in fails first, so that it has failed for everybody who learns the end.
                expectation.fail(.died(worker: expectation.worker, status: status))
                self.ended.set(status)
            }
            if isGuarded { GroupGuard.shared.add(pid, housekeeping) }
            if let crash { try housekeeping.add(crash) }
            try housekeeping.add(end)
        } catch {
            crash?.invalidate()
            // Nobody would notice the child's end.
            kill(pid, SIGKILL)
            if isGuarded { GroupGuard.shared.remove(pid, housekeeping) }
            while waitpid(pid, nil, 0) < 0, errno == EINTR {}
            throw .notLaunched(reason: "\(error)")
        }
        // The source keeps this object as long as there is a child. Without the runtime, there may be no outcome.
        expectation.outcome.whenSet { [weak self] outcome in
            if case .failure = outcome { self?.send(signal: SIGKILL) }
        }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// A source for the worker's crash report.
    private func crashSource(_ report: EventDescriptor, _ runtime: PortRuntime) -> ThreadRunLoop.Source1 {
        // Not retained, because the source is the runtime's own.
        ThreadRunLoop.Source1(descriptor: report.descriptor, label: { [pid] in "crash of \(pid)" }, duplicates: false) {
            [weak self, weak runtime] turn in
            turn.source.invalidate()
            let signal = report.clear()
            guard let self, 1..<65 ~= signal else { return true }
            crashed.set(Int32(signal))
            // Its handlers do not come to an end. So its requests fail as they do when a process has ended.
            if let right = try? expectation.port { runtime?.processCrashes(right.channel.controlAddress) }
            return true
        }
    }

    /// Lets the worker go on when this process ends: see `Configuration.endsWithLauncherAtFirst`.
    package func outlivesLauncher() {
        if isGuardedAtFirst, ended.value == nil { GroupGuard.shared.remove(pid, housekeeping) }
    }

    /// Calls a handler once, when the worker has reported that a signal crashes it: before its port is invalid, and before it
    /// has ended. The handler runs on a thread of the library, and must not block it.
    package func onCrash(_ handler: @escaping @Sendable (_ signal: Int32) -> Void) { crashed.whenSet(handler) }

    /// The right to send to the worker.
    /// - Throws: ``CheckInError``, also before the check-in.
    public var port: MachPort.SendRight { get throws(CheckInError) { try expectation.port } }

    /// Blocks until the worker has checked in. A worker that is late is killed.
    /// - Returns: The right to send to the worker.
    /// - Throws: ``CheckInError``: `timedOut`, `died` with its exit status or signal, `refused`.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func checkIn(before deadline: ContinuousClock.Instant? = .now + .seconds(10)) throws(CheckInError)
        -> MachPort.SendRight
    {
        do {
            return try expectation.wait(before: MonotonicInstant(deadline))
        } catch {
            // Waits for the worker's end, so that the worker is gone when its launcher learns the failure.
            _ = ended.wait(until: .now + .seconds(1))
            throw error
        }
    }

    /// Suspends the task until the worker has checked in. A worker that is late is killed.
    /// - Returns: The right to send to the worker.
    /// - Throws: ``CheckInError``: `timedOut`, `died` with its exit status or signal, `refused`. `CancellationError`:
    ///   the worker goes on.
    public nonisolated(nonsending) func checkIn(
        before deadline: ContinuousClock.Instant? = .now + .seconds(10)
    ) async throws -> MachPort.SendRight {
        do {
            return try await expectation.wait(before: MonotonicInstant(deadline), on: housekeeping)
        } catch let error as CheckInError {
            _ = try? await ended.value(before: .now + .seconds(1), on: housekeeping)
            throw error
        }
    }

    /// Calls a handler once, when the worker has checked in or has failed, or at once when that is known. The handler
    /// runs on a thread of the library, and must not block it. The error about a child that has ended has the exit
    /// status. ``status`` has it only after the handlers.
    public func onCheckIn(_ handler: @escaping @Sendable (Result<MachPort.SendRight, CheckInError>) -> Void) {
        expectation.outcome.whenSet(handler)
    }

    /// The child's exit status; nil while the child runs.
    public var status: ThreadRunLoop.ExitStatus? { ended.value }

    /// Calls a handler once, when the child has ended, or at once when it has ended already. The handler runs on a
    /// thread of the library, and must not block it.
    public func onExit(_ handler: @escaping @Sendable (ThreadRunLoop.ExitStatus) -> Void) { ended.whenSet(handler) }

    /// Set when the library's own thread has done what it had to do at the time of the call, and so knows what has come from
    /// the child. A handler may block that thread.
    package func caughtUp() -> OneShot<Void> {
        let turn = OneShot<Void>()
        let comes = !housekeeping.isCurrent && (try? housekeeping.perform { turn.set(()) }) != nil
        if !comes { turn.set(()) }
        return turn
    }

    /// Sends the child a signal. Nothing happens when the child has ended: a pidfd never names another process.
    public func send(signal: Int32) { _ = crl_pidfd_signal(descriptor, signal) }

    /// Blocks until the child has ended.
    /// - Returns: The child's exit status; nil when the deadline came first.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func waitForExit(before deadline: ContinuousClock.Instant? = nil) -> ThreadRunLoop.ExitStatus? {
        ended.wait(until: MonotonicInstant(deadline))
    }

    /// Suspends the task until the child has ended.
    /// - Returns: The child's exit status; nil when the deadline came first.
    /// - Throws: `CancellationError`: the child goes on. ``PortError`` without a thread for the deadline.
    public nonisolated(nonsending) func waitForExit(
        before deadline: ContinuousClock.Instant? = nil
    ) async throws -> ThreadRunLoop.ExitStatus? {
        try await ended.value(before: MonotonicInstant(deadline), on: housekeeping)
    }
}
