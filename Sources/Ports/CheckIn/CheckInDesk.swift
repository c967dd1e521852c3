import Glibc
import RunLoops

/// Where the workers of this process check in: one port for each registry directory, served by the housekeeping thread,
/// so that they can check in while a launcher blocks or its loop is busy.
final class CheckInDesk: Sendable {
    private struct State {
        var port: MachPort?
        var expected: [UInt64: CheckInExpectation] = [:]
    }

    private let state = Lock(State())

    /// Expects a worker; what it needs to check in is the result.
    func expect(_ expectation: CheckInExpectation, _ nameServer: PortNameServer) throws(PortError) -> CheckIn {
        let port = try port(nameServer)
        // Random, so that nobody takes a worker's place by counting.
        let number = UInt64.random(in: .min ... .max)
        state.withLock { $0.expected[number] = expectation }
        return CheckIn(desk: port.sendRight, number: number)
    }

    func forget(_ checkIn: CheckIn) { _ = state.withLock { $0.expected.removeValue(forKey: checkIn.number) } }

    /// The desk's name, by which other processes find it.
    func registeredName(_ nameServer: PortNameServer) throws(PortError) -> String {
        let name = "check-in.\(nameServer.runtime.incarnation)"
        // Each time: somebody may have removed the directory.
        try nameServer.register(port(nameServer), name: name)
        return name
    }

    private func port(_ nameServer: PortNameServer) throws(PortError) -> MachPort {
        let loop = try nameServer.runtime.housekeeping.loop()
        if let port = state.withLock({ $0.port }) {
            // The thread that made it may not have scheduled it yet, or not have been able to.
            if !port.isScheduled(in: loop) { try port.schedule(in: loop) }
            return port
        }
        let made = try MachPort(nameServer: nameServer) { [weak self] message in self?.checkIn(message) }
        let port = state.withLock { state in
            if let port = state.port { return port }
            state.port = made
            return made
        }
        try port.schedule(in: loop)
        return port
    }

    private func checkIn(_ message: MachPort.Message) {
        guard message.id == CheckIn.messageID, let worker = message.replyPort, let sender = message.sender else {
            return
        }
        let number: UInt64? = message.withBytes { span in
            span.withUnsafeBytes { $0.count == 8 ? $0.little(at: 0) : nil }
        }.flatMap(\.self)
        guard let number, let expectation = state.withLock({ $0.expected.removeValue(forKey: number) }) else {
            log.warning(
                about: .process(sender.pid), once: "unexpected",
                "process \(sender.pid) wanted to check in, and was not expected")
            return answer(worker, of: sender.pid, MachPort.Message(id: CheckIn.refusalID))
        }
        guard expectation.isMet(by: sender) else {
            answer(worker, of: sender.pid, MachPort.Message(id: CheckIn.refusalID))
            return expectation.fail(.refused(worker: expectation.worker, pid: sender.pid, uid: sender.uid))
        }
        // The outcome stands before the welcome: the worker may end right after it. The launcher learns it after: nothing that
        // the launcher sends may come before the welcome.
        expectation.outcome.set(.success(worker)) {
            answer(worker, of: sender.pid, MachPort.Message(id: CheckIn.welcomeID, [.port(expectation.parent)]))
        }
    }

    /// An answer without room waits by itself: the housekeeping thread has others to serve.
    private func answer(_ worker: MachPort.SendRight, of pid: pid_t, _ message: MachPort.Message) {
        let channel = worker.channel
        let fail: @Sendable (any Error) -> Void = { error in
            log.warning(
                about: .process(pid), once: "unanswered",
                "process \(pid), which checks in, cannot be answered: \(error)")
        }
        do throws(PortError) {
            try channel.post(MessageEncoding.frame(message, to: channel), before: .now + .seconds(1), failed: fail)
        } catch {
            fail(error)
        }
    }
}

/// The desks of a runtime, by registry directory.
private final class CheckInDesks: Sendable {
    private let desks = Lock<[String: CheckInDesk]>([:])

    func desk(for path: String) -> CheckInDesk {
        desks.withLock { desks in
            if let desk = desks[path] { return desk }
            let desk = CheckInDesk()
            desks[path] = desk
            return desk
        }
    }
}

extension PortNameServer {
    /// Where workers of this process check in by the directory.
    var checkInDesk: CheckInDesk { runtime.attachment { CheckInDesks() }.desk(for: path) }
}
