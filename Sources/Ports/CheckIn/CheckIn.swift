import Glibc
import RunLoops

/// The check-in handshake of a worker with its launcher.
///
/// The worker makes its own port, checks in with that port, and gets the right to the launcher's port:
///
///     let checkIn = try CheckIn.fromEnvironment()
///     let mine = try MachPort { message in … }
///     let parent = try checkIn.complete(with: mine)
///     try mine.schedule(in: .current)
public struct CheckIn: Sendable {
    /// The id of the check-in message, whose reply port is the worker's own.
    public static let messageID: UInt32 = 100
    static let welcomeID: UInt32 = 101
    static let refusalID: UInt32 = 102

    let desk: MachPort.SendRight
    let number: UInt64

    static let variable = "PORTS_CHECK_IN"

    /// The check-in of a process that a ``WorkerProcess`` has launched.
    /// - Throws: ``CheckInError``: `notLaunched` when nobody launched this process as a worker, or `port`.
    public static func fromEnvironment() throws(CheckInError) -> CheckIn {
        let fields = getenv(variable).map { String(cString: $0) }?.split(separator: " ", maxSplits: 1) ?? []
        guard fields.count == 2, let number = UInt64(fields[0], radix: 16) else {
            throw .notLaunched(reason: "\(variable) is not set: this process was not launched as a worker")
        }
        let desk = try checkingIn { () throws(PortError) in try PortNameServer.shared.port(forName: String(fields[1])) }
        return CheckIn(desk: desk, number: number)
    }

    /// Sends the worker's port to the launcher, waits for the answer, and returns the right to the port that the worker
    /// was launched with. The worker's port must be unscheduled, and unknown to others.
    /// - Throws: ``CheckInError``: `refused`, or `port` when the launcher is gone or does not answer.
    @available(*, noasync, message: "it blocks its thread")
    public func complete(
        with port: MachPort, before deadline: ContinuousClock.Instant? = .now + .seconds(10)
    ) throws(CheckInError) -> MachPort.SendRight {
        let number = withUnsafeBytes(of: number.littleEndian) { Array($0) }
        let answer = try checkingIn { () throws(PortError) in
            try desk.send(
                MachPort.Message(id: Self.messageID, [.bytes(number)], replyPort: port.sendRight), before: deadline)
            return try self.answer(at: port, before: MonotonicInstant(deadline))
        }
        if answer.id == Self.welcomeID, case .port(let parent)? = answer.components.first { return parent }
        throw .refused(worker: "process \(getpid())", pid: getpid(), uid: geteuid())
    }

    /// Waits for the launcher's answer, or for the launcher's end.
    private func answer(at port: MachPort, before deadline: MonotonicInstant) throws(PortError) -> MachPort.Message {
        while true {
            do throws(PortError) {
                return MachPort.Message(try port.receiver.receive(before: min(deadline, .now + .milliseconds(250))))
            } catch .receiveTimedOut where !deadline.hasPassed {
                guard desk.isValid else { throw .becameInvalid(port: desk.id) }
            }
        }
    }
}
