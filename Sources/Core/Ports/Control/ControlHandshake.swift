import CRunLoopShims
import Glibc
import RunLoopLocks
import RunLoops
import Synchronization

/// A handshake with another process, from the connect to the peer's hello. A handshake has no deadline, because a
/// stopped process answers when it continues. Each waiter for the outcome has its own.
final class ControlHandshake: Sendable {
    enum Outcome: Sendable {
        case connected(ControlConnection)
        /// Nobody listens at the control socket. A live process listens until its end.
        case dead
        case otherVersion(UInt8, of: ProcessIdentity)
        /// The process may be alive.
        case noConnection(reason: String)
        case failed(PortError)

        var isConnected: Bool { if case .connected = self { true } else { false } }

        var text: String {
            switch self {
            case .connected(let connection): "connected to \(connection.text)"
            case .dead: "it has ended"
            case .otherVersion(let theirs, let owner): "\(owner) speaks version \(theirs) of the control protocol"
            case .noConnection(let reason): reason
            case .failed(let error): "\(error)"
            }
        }

        func connection(for port: PortIdentity) throws(PortError) -> ControlConnection {
            switch self {
            case .connected(let connection): return connection
            case .dead: throw .isInvalid(port: port)
            case .otherVersion(let theirs, let owner):
                throw .incompatibleVersion(
                    what: "\(owner), which owns \(port),", ours: Int(ControlHello.version), theirs: Int(theirs))
            case .noConnection(let reason): throw .cannotConnect(port: port, reason: reason)
            case .failed(let error): throw error
            }
        }
    }

    private enum Phase {
        case connecting(ControlSocket)
        case awaitingHello(ControlSocket, pid_t, ThreadRunLoop.Source1)
        case over
    }

    let address: ControlAddress
    /// The process of the last connection; nil when there was none.
    private let former: FormerPeer?
    let outcome = Promise<Outcome>()

    private let connections: ControlConnectionTable
    private let loop: ThreadRunLoop
    private let phase: Lock<Phase>
    private let willConnect = Atomic(false)

    init(_ address: ControlAddress, _ former: FormerPeer?, _ connections: ControlConnectionTable) throws(PortError) {
        self.address = address
        self.former = former
        self.connections = connections
        loop = try connections.housekeeping.loop()
        try connections.sockets.checkReserve()
        phase = Lock(.connecting(ControlSocket(try LocalSocket.makeControl())))
    }

    deinit { if case .awaitingHello(_, _, let answer)? = phase.withLockUnlessForked({ $0 }) { answer.invalidate() } }

    func wait(until deadline: MonotonicInstant) -> Outcome? {
        // A handler on the housekeeping thread blocks the loop that would continue the handshake. So this thread
        // continues it here.
        while loop.isCurrent, outcome.value == nil, !deadline.hasPassed {
            switch phase.withLock({ $0 }) {
            case .connecting:
                usleep(2_000)
                connect()
            case .awaitingHello(let socket, _, _):
                if crl_poll(socket.descriptor, -1, deadline.timeout) > 0 { receiveHello() }
            case .over: break
            }
        }
        return outcome.wait(until: deadline)
    }

    /// The error for a waiter whose deadline came before the outcome.
    func timeoutError(_ port: PortIdentity) -> PortError {
        guard case .awaitingHello(_, let pid, _) = phase.withLock({ $0 }) else {
            return .cannotConnect(port: port, reason: "its owner does not accept the connection in time\(Self.remedy)")
        }
        return .cannotConnect(
            port: port, reason: "\(ProcessIdentity(pid: pid)), its owner, does not answer in time\(Self.remedy)")
    }

    /// The remedy in errors about a live process that does not answer the library.
    static let remedy = ": allow more time, unless the process is stopped or frozen"

    /// Starts the handshake. Any thread may call this method, once.
    func begin() {
        log.debug("connecting to \(address.incarnation.shortDescription) at \(address.path)")
        if loop.isCurrent { connect() } else { try? loop.perform { self.connect() } }
        abandonIfUnwanted()
    }

    /// Checks once a second whether the process is dead, or no rights to its ports are left, and ends the handshake
    /// then.
    private func abandonIfUnwanted() {
        connections.housekeeping.perform(after: .seconds(1)) { [weak self] in
            guard let self, outcome.value == nil else { return }
            var isDead = false
            if case .awaitingHello(_, let pid, _) = phase.withLock({ $0 }) { isDead = ProcessStatus.isEnding(pid) }
            if !isDead, connections.isWanted(address) { return abandonIfUnwanted() }
            end(isDead ? .dead : failure(ETIMEDOUT))
        }
    }

    // MARK: On the housekeeping thread

    private func connect() {
        guard case .connecting(let socket) = phase.withLock({ $0 }) else { return }
        switch LocalSocket.connect(socket.descriptor, to: address.path) {
        case 0: sendHello(socket)
        case EAGAIN, EINTR: connectLater()
        case ECONNREFUSED, ENAMETOOLONG: end(.dead)
        case ENOENT, ENOTDIR: end(outcomeWithoutSocket)
        case let error: end(failure(error))
        }
    }

    private func connectLater() {
        // `wait` retries as well, on this thread. The kernel has no event for room in a listener's backlog.
        guard !willConnect.exchange(true, ordering: .relaxed) else { return }
        log.debug("trying again to connect to \(address.incarnation.shortDescription), whose listener is busy")
        connections.housekeeping.perform(after: .milliseconds(2)) {
            self.willConnect.store(false, ordering: .relaxed)
            self.connect()
        }
    }

    private func sendHello(_ socket: ControlSocket) {
        let credentials = PeerCredentials(of: socket.descriptor)
        guard let credentials, credentials.isOwnUser else {
            let (pid, user) = (credentials?.pid ?? 0, credentials.map { "\($0.uid)" } ?? "unknown")
            log.warning(
                about: .process(pid), once: "poses",
                "\(ProcessIdentity(pid: pid)) of another user listens at \(address.path): no message goes there")
            let reason = "\(ProcessIdentity(pid: pid)), in its owner's place, belongs to user \(user)"
            return end(.noConnection(reason: reason))
        }
        // A child between fork and exec holds the descriptors of its dead parent.
        if ProcessStatus.isEnding(credentials.pid) { return end(.dead) }
        let answer = ThreadRunLoop.Source1(descriptor: socket.descriptor, duplicates: false) { [weak self] _ in
            self?.receiveHello()
            return true
        }
        guard socket.send(connections.hello(to: address.incarnation, credentials.pid)) else {
            return end(failure(errno))
        }
        phase.withLock { $0 = .awaitingHello(socket, credentials.pid, answer) }
        do throws(PortError) {
            try connections.housekeeping.add(answer)
        } catch {
            end(.failed(error))
        }
    }

    private func receiveHello() {
        let former = phase.withLock { exchange(&$0, with: .over) }
        guard case .awaitingHello(let socket, let pid, let answer) = former else { return }
        answer.invalidate()
        switch socket.receiveHello() {
        case .success(let hello)? where hello.version != ControlHello.version:
            end(.otherVersion(hello.version, of: ProcessIdentity(pid: pid)))
        case .success(let hello)? where hello.incarnation == address.incarnation:
            let connection = ControlConnection(socket, hello, pid, connections)
            do throws(PortError) {
                try connections.add(connection)
                end(.connected(connection))
            } catch {
                end(.failed(error))
            }
        case nil:
            switch LocalSocket.listening(at: address.path) {
            case .somebody:
                end(.noConnection(reason: "\(ProcessIdentity(pid: pid)), its owner, refuses the connection"))
            case .nobody: end(.dead)
            case .noSocket: end(outcomeWithoutSocket)
            }
        default:
            end(.dead)
        }
    }

    /// The outcome when the address leads to no socket, because the process has removed its socket or the directory's
    /// path leads elsewhere now.
    private var outcomeWithoutSocket: Outcome {
        connections.events?.mayBeAlive(address, former) == false ? .dead : failure(ENOENT)
    }

    private func failure(_ error: Int32) -> Outcome {
        // The process may be known to be dead though its socket is out of reach.
        if former?.process.state == .ended { return .dead }
        return .noConnection(reason: "\(address.path): \(String(cString: strerror(error)))")
    }

    private func end(_ outcome: Outcome) {
        let former = phase.withLock { exchange(&$0, with: .over) }
        if case .awaitingHello(_, _, let answer) = former { answer.invalidate() }
        connections.ended(self, outcome)
    }
}

/// The process of a connection that has ended.
struct FormerPeer: Sendable {
    let process: KnownProcess
    /// Whether the directory in which it has listened is still there; nil when that is not known.
    let hasPlace: (@Sendable () -> Bool)?
}
