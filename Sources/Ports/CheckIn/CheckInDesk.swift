import Glibc
import RunLoops
import Synchronization

/// Where the workers of this process check in: one port a registry directory, served by the housekeeping thread, so
/// that a launcher may block, or its loop be busy, while they do.
final class CheckInDesk: Sendable {
    /// One worker that is expected.
    final class Expectation: Sendable {
        /// What the launcher knows of the worker, to hold the kernel's word against.
        enum Identity {
            /// A thread of this process.
            case thread
            /// A child; nil until it was started.
            case process(pid_t?)
        }

        private struct State {
            var identity: Identity
            var outcome: Result<MachPort.SendRight, CheckInError>?
            var isTold = false
            var handlers: [@Sendable (Result<MachPort.SendRight, CheckInError>) -> Void] = []
        }

        let worker: String
        let parent: MachPort.SendRight
        private let state: Mutex<State>
        private let gate = Gate()

        init(_ worker: String, _ identity: Identity, parent: MachPort.SendRight) {
            self.worker = worker
            self.parent = parent
            state = Mutex(State(identity: identity))
        }

        /// Starts the child; a check-in that comes meanwhile waits until its pid is known.
        func start(_ spawn: () throws(CheckInError) -> pid_t) throws(CheckInError) -> pid_t {
            try state.withLock { (state) throws(CheckInError) in
                let pid = try spawn()
                state.identity = .process(pid)
                return pid
            }
        }

        func isMet(by sender: MachPort.Message.Sender) -> Bool {
            state.withLock { state in
                switch state.identity {
                case .thread: sender.pid == getpid()
                case .process(let pid): sender.pid == pid && sender.uid == geteuid()
                }
            }
        }

        /// The first outcome counts.
        ///
        /// - Parameter beforeTold: Runs when the outcome stands, and before anybody learns of it.
        func finish(_ outcome: Result<MachPort.SendRight, CheckInError>, beforeTold: () -> Void = {}) {
            let isFirst = state.withLock { state in
                guard state.outcome == nil else { return false }
                state.outcome = outcome
                return true
            }
            guard isFirst else { return }
            beforeTold()
            gate.open()
            let handlers = state.withLock { state in
                state.isTold = true
                defer { state.handlers = [] }
                return state.handlers
            }
            for handler in handlers { handler(outcome) }
        }

        func whenFinished(_ handler: @escaping @Sendable (Result<MachPort.SendRight, CheckInError>) -> Void) {
            let outcome = state.withLock { state in
                if !state.isTold { state.handlers.append(handler) }
                return state.isTold ? state.outcome : nil
            }
            if let outcome { handler(outcome) }
        }

        /// The worker's port. When the deadline comes first, that is the outcome.
        func wait(before deadline: MonotonicInstant) throws(CheckInError) -> MachPort.SendRight {
            if !gate.wait(until: deadline) {
                finish(.failure(.timedOut(worker: worker)))
                _ = gate.wait(until: .now + .seconds(2))
            }
            guard let outcome = state.withLock({ $0.outcome }) else { throw .timedOut(worker: worker) }
            return try outcome.get()
        }
    }

    private struct State {
        var port: MachPort?
        var isRegistered = false
        var expected: [UInt64: Expectation] = [:]
    }

    private let state = Mutex(State())
    private let nameServer: PortNameServer

    init(_ nameServer: PortNameServer) { self.nameServer = nameServer }

    /// Expects a worker; what it needs to check in is the result.
    func expect(_ expectation: Expectation) throws(PortError) -> CheckIn {
        let port = try port()
        // Random, so that nobody takes a worker's place by counting.
        let number = UInt64.random(in: .min ... .max)
        state.withLock { $0.expected[number] = expectation }
        return CheckIn(desk: port.sendRight, number: number)
    }

    func forget(_ checkIn: CheckIn) { _ = state.withLock { $0.expected.removeValue(forKey: checkIn.number) } }

    /// The desk's name, by which other processes find it.
    func registeredName() throws(PortError) -> String {
        let name = "check-in.\(PortProcess.current.incarnation)"
        if state.withLock({ $0.isRegistered }) { return name }
        try nameServer.register(port(), name: name)
        state.withLock { $0.isRegistered = true }
        return name
    }

    private func port() throws(PortError) -> MachPort {
        let loop = try PortProcess.current.housekeepingLoop()
        if let port = state.withLock({ $0.port }) {
            // Whoever made it may not have come so far, or not have been able to.
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
            return expectation.finish(
                .failure(.refused(worker: expectation.worker, pid: sender.pid, uid: sender.uid)))
        }
        // The worker may be done with its life before the launcher hears of it; and nothing that the launcher sends may
        // come before the welcome.
        expectation.finish(.success(worker)) {
            answer(worker, of: sender.pid, MachPort.Message(id: CheckIn.welcomeID, [.port(expectation.parent)]))
        }
    }

    /// The housekeeping thread has others to serve: an answer for which there is no room waits by itself.
    private func answer(_ worker: MachPort.SendRight, of pid: pid_t, _ message: MachPort.Message) {
        let channel = worker.channel
        let fail: @Sendable (any Error) -> Void = { error in
            log.warning(
                about: .process(pid), once: "unanswered",
                "process \(pid), which checks in, cannot be answered: \(error)")
        }
        do throws(PortError) {
            try channel.post(Encoding.frame(message, to: channel), before: .now + .seconds(1), failed: fail)
        } catch {
            fail(error)
        }
    }
}
