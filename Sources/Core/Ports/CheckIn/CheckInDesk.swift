import Glibc
import RunLoopLocks
import RunLoops

/// The ports by which the workers of this process check in: one for each registry directory. The housekeeping thread
/// serves the ports, so workers can check in while the launcher's thread is busy. No port retains the runtime, which
/// retains the desk.
final class CheckInDesk: Sendable {
    private struct State {
        /// By the path of the registry directory.
        var ports: [String: Receiver] = [:]
        var expected: [UInt64: CheckInExpectation] = [:]
    }

    private let state = Lock(State())

    func expect(_ expectation: CheckInExpectation, _ nameServer: PortNameServer) throws(PortError) -> CheckIn {
        // Random, so that nobody can guess another worker's number.
        let checkIn = CheckIn(desk: try right(nameServer), number: .random(in: .min ... .max))
        state.withLock { $0.expected[checkIn.number] = expectation }
        return checkIn
    }

    func forget(_ checkIn: CheckIn) { _ = state.withLock { $0.expected.removeValue(forKey: checkIn.number) } }

    func registeredName(_ nameServer: PortNameServer) throws(PortError) -> String {
        let name = CheckIn.deskPrefix + "\(nameServer.runtime.incarnation)"
        // Each time, because somebody may have removed the directory.
        try nameServer.registerInternal(port(nameServer), name: name)
        return name
    }

    /// The right that a worker gets: the launcher's port, or else the port of the desk, which shows the end of the
    /// launcher's process.
    func parent(
        _ port: MachPort.SendRight?, _ nameServer: PortNameServer
    ) throws(PortError) -> MachPort.SendRight {
        if let port { return port }
        return try right(nameServer)
    }

    private func right(_ nameServer: PortNameServer) throws(PortError) -> MachPort.SendRight {
        MachPort.SendRight(try port(nameServer).channel)
    }

    private func port(_ nameServer: PortNameServer) throws(PortError) -> Receiver {
        let loop = try nameServer.runtime.housekeeping.loop()
        return try state.withLock { (state) throws(PortError) in
            if let known = state.ports[nameServer.path] { return known }
            let handler = MachPort.messageHandler { [weak self] in self?.checkIn($0) }
            let made = try Receiver(
                PortLimits(), directoryPath: nameServer.path, nameServer.runtime.receiving,
                handlers: .init(message: handler))
            try made.schedule(in: loop, forMode: .default)
            state.ports[nameServer.path] = made
            return made
        }
    }

    private func checkIn(_ message: MachPort.Message) {
        guard message.id == CheckIn.messageID, let worker = message.replyPort, let sender = message.sender else {
            return
        }
        // A worker before version 2 takes the answer at its own port.
        let answers = message.port(ofComponent: 1) ?? worker
        let number: UInt64?? = message.withBytes { $0.withUnsafeBytes { $0.count == 8 ? $0.little(at: 0) : nil } }
        let expectation = state.withLock { state in (number ?? nil).flatMap { state.expected.removeValue(forKey: $0) } }
        guard let expectation, expectation.isMet(by: sender) else {
            answer(answers, of: sender.pid, MachPort.Message(id: CheckIn.refusalID), within: .seconds(1))
            if let expectation {
                return expectation.fail(.refused(worker: expectation.worker, pid: sender.pid, uid: sender.uid))
            }
            return log.warning(
                about: .process(sender.pid), once: "unexpected",
                "refused the check-in of \(ProcessIdentity(pid: sender.pid)): no worker is expected")
        }
        // The worker may end right after the welcome, so the outcome is decided before the welcome is sent. Where the worker
        // takes it at its own port, a message of the launcher must not arrive first, so the outcome becomes visible after it.
        // The welcome has no deadline, because the worker may be stopped.
        expectation.outcome.set(.success(worker)) {
            let welcome = MachPort.Message(id: CheckIn.welcomeID, [.port(expectation.parent)])
            answer(answers, of: sender.pid, welcome, within: nil)
        }
    }

    /// Posts an answer, because the housekeeping thread must not wait for room.
    private func answer(
        _ answers: MachPort.SendRight, of pid: pid_t, _ message: MachPort.Message, within time: Duration?
    ) {
        let fail: @Sendable ((any Error)?) -> Void = { error in
            guard let error else { return }
            log.warning(
                about: .process(pid), once: "unanswered",
                "the check-in of \(ProcessIdentity(pid: pid)) cannot be answered: \(error)")
        }
        do throws(PortError) {
            try answers.post(message, within: time, ended: fail)
        } catch {
            fail(error)
        }
    }
}

extension PortRuntime {
    var checkInDesk: CheckInDesk { attachment { CheckInDesk() } }
}
