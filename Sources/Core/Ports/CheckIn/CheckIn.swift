import Glibc
import RunLoops

/// The check-in handshake of a worker with its launcher.
///
/// The worker makes its own port, checks in with that port, and gets the right to the launcher's port:
///
///     let checkIn = try CheckIn.fromEnvironment()
///     let mine = try MachPort { message in print("got", message.id) }
///     let parent = try checkIn.complete(with: mine)
///     try mine.schedule(in: .current)
public struct CheckIn: Sendable {
    /// The id of the check-in message, whose reply port is the worker's own.
    public static let messageID: UInt32 = 100
    static let welcomeID: UInt32 = 101
    static let refusalID: UInt32 = 102

    let desk: MachPort.SendRight
    let number: UInt64
    /// Whether the launcher answers at a port that is for nothing else. One before version 2 answers at the worker's port, where
    /// a message of another process may be first.
    var hasOwnAnswer = true

    static let variable = "PORTS_CHECK_IN"
    /// The beginning of the names of desks.
    static let deskPrefix = "check-in.2."

    /// The check-in of a process that a ``WorkerProcess`` has launched. Blocks until the launcher's process answers.
    /// - Throws: ``CheckInError``: `notLaunched` when nobody launched this process as a worker, or `port`.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public static func fromEnvironment(
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) throws(CheckInError) -> CheckIn {
        let (number, name) = try environmentEntry()
        let desk = try checkingIn { () throws(PortError) in
            try PortNameServer.shared.port(forName: name, before: deadline)
        }
        return CheckIn(desk: desk, number: number, hasOwnAnswer: name.hasPrefix(deskPrefix))
    }

    /// The check-in of a process that a ``WorkerProcess`` has launched. Suspends the task until the launcher's process
    /// answers.
    /// - Throws: ``CheckInError``: `notLaunched` when nobody launched this process as a worker, or `port`.
    ///   `CancellationError`.
    public nonisolated(nonsending) static func fromEnvironment(
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) async throws -> CheckIn {
        let (number, name) = try environmentEntry()
        do {
            let desk = try await PortNameServer.shared.port(forName: name, before: deadline)
            return CheckIn(desk: desk, number: number, hasOwnAnswer: name.hasPrefix(deskPrefix))
        } catch let error as PortError {
            throw CheckInError.port(error)
        }
    }

    private static func environmentEntry() throws(CheckInError) -> (number: UInt64, name: String) {
        let fields = getenv(variable).map { String(cString: $0) }?.split(separator: " ", maxSplits: 1) ?? []
        guard fields.count == 2, let number = UInt64(fields[0], radix: 16) else {
            throw .notLaunched(reason: "\(variable) is not set: this process was not launched as a worker")
        }
        return (number, String(fields[1]))
    }

    /// Sends the worker's port to the launcher, and blocks until the launcher answers. Messages of others to the worker's
    /// port wait there meanwhile.
    /// - Returns: The right to the port that the worker was launched with.
    /// - Throws: ``CheckInError``: `refused`, or `port` when the launcher is gone or does not answer.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func complete(
        with port: MachPort, before deadline: ContinuousClock.Instant? = .now + .seconds(10)
    ) throws(CheckInError) -> MachPort.SendRight {
        let end = MonotonicInstant(deadline)
        let answer = try checkingIn { () throws(PortError) in
            let answers = try answerPort(of: port)
            defer { if hasOwnAnswer { answers.invalidate() } }
            try desk.send(request(port, answers), before: deadline)
            while true {
                do throws(PortError) {
                    return MachPort.Message(try answers.receiver.receive(before: answerLimit(end)))
                } catch {
                    try checkLauncher(error, end)
                }
            }
        }
        return try parent(in: answer)
    }

    /// Sends the worker's port to the launcher, and suspends the task until the launcher answers. Messages of others to the
    /// worker's port wait there meanwhile.
    /// - Returns: The right to the port that the worker was launched with.
    /// - Throws: ``CheckInError``: `refused`, or `port` when the launcher is gone or does not answer.
    ///   `CancellationError`: the launcher may have accepted the worker nevertheless.
    public nonisolated(nonsending) func complete(
        with port: MachPort, before deadline: ContinuousClock.Instant? = .now + .seconds(10)
    ) async throws -> MachPort.SendRight {
        let end = MonotonicInstant(deadline)
        do {
            let answers = try answerPort(of: port)
            defer { if hasOwnAnswer { answers.invalidate() } }
            try await desk.send(request(port, answers), before: deadline)
            while true {
                do {
                    let answer = try await answers.receiver.receive(before: answerLimit(end))
                    return try parent(in: MachPort.Message(answer))
                } catch let error as PortError {
                    try checkLauncher(error, end)
                }
            }
        } catch let error as PortError {
            throw CheckInError.port(error)
        }
    }

    /// The port that takes the launcher's answer.
    private func answerPort(of port: MachPort) throws(PortError) -> MachPort {
        guard hasOwnAnswer else { return port }
        let names = PortNameServer(directory: port.receiver.exposure.directoryPath, runtime: port.runtime)
        return try MachPort(queueLimit: 2, messageLimit: 64 << 10, nameServer: names)
    }

    private func request(_ port: MachPort, _ answers: MachPort) -> MachPort.Message {
        let number = withUnsafeBytes(of: number.littleEndian) { Array($0) }
        let answerRight: [MachPort.Message.Component] = hasOwnAnswer ? [.port(answers.sendRight)] : []
        return MachPort.Message(id: Self.messageID, [.bytes(number)] + answerRight, replyPort: port.sendRight)
    }

    /// The deadline of one wait, after which the launcher's end is checked.
    private func answerLimit(_ deadline: MonotonicInstant) -> MonotonicInstant {
        min(deadline, .now + .milliseconds(250))
    }

    /// Throws unless the launcher may still answer after an error.
    private func checkLauncher(_ error: PortError, _ deadline: MonotonicInstant) throws(PortError) {
        guard case .receiveTimedOut = error, !deadline.hasPassed else { throw error }
        guard desk.isValid else { throw .becameInvalid(port: desk.identity) }
    }

    private func parent(in answer: MachPort.Message) throws(CheckInError) -> MachPort.SendRight {
        if answer.id == Self.welcomeID, case .port(let parent)? = answer.components.first { return parent }
        throw .refused(worker: "process \(getpid())", pid: getpid(), uid: geteuid())
    }
}
