import CRunLoopShims
import Glibc
import RunLoops

/// A child process that checks in with a port of its own, and gets the right to a port of the launcher.
///
/// The kernel's credentials prove the child's identity. The release of the object does not end the child.
public final class WorkerProcess: Sendable {
    /// The child's process id.
    public let pid: pid_t

    private let descriptor: Int32
    private let expectation: CheckInExpectation
    private let ended = Promise<ThreadRunLoop.ExitStatus>()

    /// Starts a program, and returns when the program has checked in. A worker that is late or refused is killed.
    ///
    /// The executable is a path; `/proc/self/exe` is this program. The arguments come without the program's name, and the
    /// environment is added to this process's. ``CheckIn/complete(with:before:)`` gives `port` to the worker. The name
    /// server's directory is the one for the check-in, and the worker's default.
    /// - Throws: ``CheckInError``.
    @available(*, noasync, message: "it blocks its thread")
    public static func launch(
        _ executable: String, _ arguments: [String] = [], environment: [String: String] = [:], port: MachPort.SendRight,
        nameServer: PortNameServer = .shared, before deadline: ContinuousClock.Instant? = .now + .seconds(10)
    ) throws(CheckInError) -> WorkerProcess {
        let worker = try start(executable, arguments, environment: environment, port: port, nameServer: nameServer)
        _ = try worker.checkIn(before: deadline)
        return worker
    }

    /// Starts a program as ``launch(_:_:environment:port:nameServer:before:)`` does, and returns at once.
    /// ``checkIn(before:)`` and ``onCheckIn(_:)`` report the check-in.
    /// - Throws: ``CheckInError``: `notLaunched`, or `port`.
    public static func start(
        _ executable: String, _ arguments: [String] = [], environment: [String: String] = [:],
        port: MachPort.SendRight, nameServer: PortNameServer = .shared
    ) throws(CheckInError) -> WorkerProcess {
        try checkingIn(Fork.check)
        let expectation = CheckInExpectation("worker “\(executable)”", pid: nil, parent: port)
        let desk = nameServer.runtime.checkInDesk
        let (name, checkIn) = try checkingIn { () throws(PortError) in
            (try desk.registeredName(nameServer), try desk.expect(expectation, nameServer))
        }
        var environment = environment
        environment[CheckIn.variable] = "\(String(checkIn.number, radix: 16)) \(name)"
        environment["PORTS_DIRECTORY"] = nameServer.path
        do throws(CheckInError) {
            let pid = try expectation.start { () throws(CheckInError) in try spawn(executable, arguments, environment) }
            return try WorkerProcess(pid, expectation, nameServer.runtime.housekeeping) { desk.forget(checkIn) }
        } catch {
            desk.forget(checkIn)
            throw error
        }
    }

    private init(
        _ pid: pid_t, _ expectation: CheckInExpectation, _ housekeeping: Housekeeping,
        forget: @escaping @Sendable () -> Void
    ) throws(CheckInError) {
        self.pid = pid
        self.expectation = expectation
        descriptor = crl_pidfd_open(pid)
        do {
            guard descriptor >= 0 else { throw PortError.last("pidfd_open") }
            // The source keeps the worker until the child has ended.
            let end = try ThreadRunLoop.Source1.child(pid) { status in
                forget()
                self.ended.set(status)
                expectation.fail(.died(worker: expectation.worker, status: status))
            }
            try housekeeping.add(end)
        } catch {
            // Nobody would notice the child's end.
            kill(pid, SIGKILL)
            while waitpid(pid, nil, 0) < 0, errno == EINTR {}
            throw .notLaunched(reason: "\(error)")
        }
        expectation.outcome.whenSet { [self] outcome in
            if case .failure = outcome { send(signal: SIGKILL) }
        }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    private static func spawn(
        _ executable: String, _ arguments: [String], _ extra: [String: String]
    ) throws(CheckInError) -> pid_t {
        var variables = extra.map { "\($0)=\($1)" }
        var inherited = environ
        while let entry = inherited.pointee {
            let variable = String(cString: entry)
            let name = variable.prefix { $0 != "=" }
            if extra[String(name)] == nil { variables.append(variable) }
            inherited += 1
        }
        var argv = ([executable] + arguments).map { strdup($0) } + [nil]
        var envp = variables.map { strdup($0) } + [nil]
        defer { for string in argv + envp { free(string) } }
        var pid: pid_t = 0
        let error = crl_spawn(&pid, executable, &argv, &envp)
        guard error == 0 else { throw .notLaunched(reason: "\(executable): \(String(cString: strerror(error)))") }
        return pid
    }

    /// Waits until the worker has checked in, and returns the right to send to it. A worker that is late is killed.
    /// - Throws: ``CheckInError``: `timedOut`, `died` with its exit status or signal, `refused`.
    @available(*, noasync, message: "it blocks its thread")
    public func checkIn(before deadline: ContinuousClock.Instant? = .now + .seconds(10)) throws(CheckInError)
        -> MachPort.SendRight
    {
        do {
            return try expectation.wait(before: MonotonicInstant(deadline))
        } catch {
            // The worker is gone when its launcher learns the failure.
            _ = ended.wait(until: .now + .seconds(1))
            throw error
        }
    }

    /// Calls a handler once, when the worker has checked in or has failed, or at once when that is known. The handler
    /// must not block its thread, which is the library's.
    public func onCheckIn(_ handler: @escaping @Sendable (Result<MachPort.SendRight, CheckInError>) -> Void) {
        expectation.outcome.whenSet(handler)
    }

    /// The child's exit status; nil while the child runs.
    public var status: ThreadRunLoop.ExitStatus? { ended.value }

    /// Calls a handler once, when the child has ended, or at once when it has ended already. The handler must not block
    /// its thread, which is the library's.
    public func onExit(_ handler: @escaping @Sendable (ThreadRunLoop.ExitStatus) -> Void) { ended.whenSet(handler) }

    /// Sends the child a signal. Nothing happens when the child has ended: a pidfd never names another process.
    public func send(signal: Int32) { _ = crl_pidfd_signal(descriptor, signal) }

    /// Waits until the child has ended, and returns its exit status; nil when the deadline came first.
    @available(*, noasync, message: "it blocks its thread")
    public func waitForExit(before deadline: ContinuousClock.Instant? = nil) -> ThreadRunLoop.ExitStatus? {
        ended.wait(until: MonotonicInstant(deadline))
    }
}
