import CShims
import Glibc
import RunLoops
import Synchronization

/// A handshake with another process, from the connect to the peer's hello.
///
/// A handshake has no deadline: a stopped process answers when it continues. Each waiter for the outcome has its own
/// deadline.
final class ControlHandshake: Sendable {
    enum Outcome: Sendable {
        case connected(ControlConnection)
        /// Nobody listens at the control socket. A live process listens until its end, so this one is dead.
        case dead
        /// The process may be alive.
        case failed(Failure)
    }

    enum Failure: Sendable {
        case anotherUser(PeerCredentials?)
        case refused(by: pid_t)
        case version(UInt8, of: pid_t)
        case system(Int32, path: String)
        case other(PortError)

        /// What the failure means for a port of the process.
        func error(_ port: PortID) -> PortError {
            switch self {
            case .anotherUser(let owner):
                .cannotConnect(
                    port: port,
                    reason: "process \(owner?.pid ?? 0), in its owner's place, belongs to user "
                        + (owner.map { "\($0.uid)" } ?? "unknown"))
            case .refused(let pid):
                .cannotConnect(port: port, reason: "process \(pid), its owner, refuses the connection")
            case .version(let version, let pid):
                .incompatibleVersion(
                    what: "process \(pid), which owns \(port),", ours: Int(ControlHello.major), theirs: Int(version))
            case .system(let error, let path):
                .cannotConnect(port: port, reason: "\(path): \(String(cString: strerror(error)))")
            case .other(let error): error
            }
        }
    }

    private enum Phase {
        case connecting
        case awaitingHello(pid_t, ThreadRunLoop.Source1)
        case over
    }

    let address: ControlAddress
    let outcome = Promise<Outcome>()

    private let connections: ControlConnections
    private let loop: ThreadRunLoop
    private let descriptor: Int32
    private let phase = Lock(Phase.connecting)
    private let willConnect = Atomic(false)

    /// The kernel has no event for room in a listener's backlog.
    private static let retryInterval = Duration.milliseconds(2)

    init(_ address: ControlAddress, _ connections: ControlConnections) throws(PortError) {
        self.address = address
        self.connections = connections
        loop = try connections.housekeeping.loop()
        try DescriptorReserve.check()
        descriptor = try LocalSocket.makeControl()
    }

    /// Waits for the outcome; nil when the deadline comes first.
    func wait(until deadline: MonotonicInstant) -> Outcome? {
        // A handler on the housekeeping thread blocks the loop that would continue the handshake.
        while loop.isCurrent, outcome.value == nil, !deadline.hasPassed {
            switch phase.withLock({ $0 }) {
            case .connecting:
                usleep(2_000)
                connect()
            case .awaitingHello:
                if crl_poll(descriptor, -1, deadline.timeout) > 0 { receiveHello() }
            case .over: break
            }
        }
        return outcome.wait(until: deadline)
    }

    /// The error for a waiter whose deadline came before the outcome.
    func timeoutError(_ port: PortID) -> PortError {
        switch phase.withLock({ $0 }) {
        case .awaitingHello(let pid, _):
            .cannotConnect(port: port, reason: "process \(pid), its owner, does not answer in time")
        default: .cannotConnect(port: port, reason: "its owner takes no connection in time")
        }
    }

    /// Any thread may call it, once.
    func begin() {
        if loop.isCurrent { connect() } else { loop.perform { self.connect() } }
        abandonIfUnwanted()
    }

    private static let abandonInterval = Duration.seconds(1)

    /// Ends the handshake when there are no rights to ports of the process any more.
    private func abandonIfUnwanted() {
        connections.housekeeping.perform(after: Self.abandonInterval) { [weak self] in
            guard let self, outcome.value == nil else { return }
            if connections.events.hasRights(to: address) { return abandonIfUnwanted() }
            let former = phase.withLock { $0 }
            if case .awaitingHello(_, let answer) = former { answer.invalidate() }
            if case .over = former { return }
            end(.failed(.system(ETIMEDOUT, path: address.path)))
        }
    }

    // MARK: On the housekeeping thread

    private func connect() {
        guard case .connecting = phase.withLock({ $0 }) else { return }
        switch LocalSocket.connect(descriptor, to: address.path) {
        case 0:
            sendHello()
        case EAGAIN, EINTR:
            connectLater()
        case ECONNREFUSED, ENAMETOOLONG:
            end(.dead)
        case ENOENT, ENOTDIR:
            end(outcomeWithoutSocket)
        case let error:
            end(.failed(.system(error, path: address.path)))
        }
    }

    private func connectLater() {
        // `wait` retries as well, on this thread.
        guard !willConnect.exchange(true, ordering: .relaxed) else { return }
        connections.housekeeping.perform(after: Self.retryInterval) {
            self.willConnect.store(false, ordering: .relaxed)
            self.connect()
        }
    }

    private func sendHello() {
        let credentials = PeerCredentials(of: descriptor)
        guard let credentials, credentials.isOwnUser else {
            log.warning(
                about: .process(credentials?.pid ?? 0), once: "poses",
                "process \(credentials?.pid ?? 0) of another user listens at \(address.path): no message goes there")
            return end(.failed(.anotherUser(credentials)))
        }
        let answer = ThreadRunLoop.Source1(descriptor: descriptor, duplicates: false) { _ in
            self.receiveHello()
            return true
        }
        phase.withLock { $0 = .awaitingHello(credentials.pid, answer) }
        connections.hello(to: address.incarnation, credentials.pid).send(to: descriptor)
        do throws(PortError) {
            try runLoop { () throws(RunLoopError) in try loop.add(answer) }
        } catch {
            end(.failed(.other(error)))
        }
    }

    /// The peer's hello has come, or the end of the connection.
    private func receiveHello() {
        let former = phase.withLock { phase in
            defer { phase = .over }
            return phase
        }
        guard case .awaitingHello(let pid, let answer) = former else { return }
        answer.invalidate()
        switch ControlHello.receive(from: descriptor) {
        case .success(let hello)? where hello.major != ControlHello.major:
            end(.failed(.version(hello.major, of: pid)))
        case .success(let hello)? where hello.incarnation == address.incarnation:
            let connection = connections.makeConnection(descriptor, hello, pid)
            do throws(PortError) {
                try connections.add(connection)
                connections.ended(self, .connected(connection))
            } catch {
                connections.ended(self, .failed(.other(error)))
            }
        case nil:
            switch LocalSocket.listening(at: address.path) {
            case .somebody: end(.failed(.refused(by: pid)))
            case .nobody: end(.dead)
            case .noSocket: end(outcomeWithoutSocket)
            }
        default:
            end(.dead)
        }
    }

    /// The address leads to no socket: the process has removed its socket, or the directory's path leads elsewhere now.
    private var outcomeWithoutSocket: Outcome {
        connections.events.mayBeAlive(address.incarnation)
            ? .failed(.system(ENOENT, path: address.path)) : .dead
    }

    /// Ends without a connection.
    private func end(_ outcome: Outcome) {
        phase.withLock { $0 = .over }
        crl_unforked_close(descriptor)
        connections.ended(self, outcome)
    }
}
