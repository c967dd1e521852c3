import CRunLoopShims
import Glibc
import RunLoops
import Synchronization

/// Where the control socket of a process is.
struct ControlAddress: Hashable, Sendable {
    let incarnation: Incarnation
    /// The registry directory.
    let directory: String

    var path: String { "\(directory)/\(incarnation)/c" }
}

/// A call at another process's control socket, from the connect to the other side's hello. A call has no deadline: a
/// stopped process answers when it goes on. Whoever waits for the outcome has a deadline of its own.
final class ControlCall: Sendable {
    enum Outcome: Sendable {
        case connected(Peer)
        /// Nobody listens at the address. A live process listens until its end, so this one is dead.
        case dead
        /// The process may be alive.
        case failed(Failure)
    }

    enum Failure: Sendable {
        case anotherUser(LocalSocket.Credentials?)
        case refused(by: pid_t)
        case version(UInt8, of: pid_t)
        case other(PortError)

        /// What it means for a port of the process.
        func error(_ port: String) -> PortError {
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
            case .other(let error): error
            }
        }
    }

    private enum Phase {
        case connecting
        case greeting(pid_t, answer: ThreadRunLoop.Source1)
        case over
    }

    let address: ControlAddress
    let outcome = Promise<Outcome>()

    private let peers: Peers
    private let loop: ThreadRunLoop
    private let descriptor: Int32
    private let phase = Mutex(Phase.connecting)
    private let isToConnect = Atomic(false)

    /// The kernel does not tell when it would take a connection that it has no room for now.
    private static let pause = Duration.milliseconds(2)

    init(_ address: ControlAddress, _ peers: Peers) throws(PortError) {
        self.address = address
        self.peers = peers
        loop = try PortProcess.current.housekeepingLoop()
        descriptor = try LocalSocket.makeControl()
    }

    /// Waits for the outcome; nil when the deadline comes first.
    func wait(until deadline: MonotonicInstant) -> Outcome? {
        // A handler on the housekeeping thread may call a process: then the loop that would hear the answer stands still.
        while loop.isCurrent, outcome.value == nil, !deadline.hasPassed {
            switch phase.withLock({ $0 }) {
            case .connecting:
                usleep(2_000)
                connect()
            case .greeting:
                if crl_poll(descriptor, -1, deadline.timeout) > 0 { hear() }
            case .over: break
            }
        }
        return outcome.wait(until: deadline)
    }

    /// Why somebody who waits for the outcome no longer does.
    func lateError(_ port: String) -> PortError {
        switch phase.withLock({ $0 }) {
        case .greeting(let pid, _):
            .cannotConnect(port: port, reason: "process \(pid), its owner, does not answer in time")
        default: .cannotConnect(port: port, reason: "its owner takes no connection in time")
        }
    }

    /// Any thread may call it, once.
    func begin() { if loop.isCurrent { connect() } else { loop.perform { self.connect() } } }

    /// On the housekeeping thread, as all that follows: two threads would take each other's connection for an error.
    private func connect() {
        guard case .connecting = phase.withLock({ $0 }) else { return }
        switch LocalSocket.connect(descriptor, to: address.path) {
        case 0:
            greet()
        case EAGAIN, EINTR:
            connectLater()
        case ENOENT, ECONNREFUSED, ENOTDIR, ENAMETOOLONG:
            end(.dead)
        case let error:
            end(.failed(.other(.cannotConnect(port: address.path, reason: String(cString: strerror(error))))))
        }
    }

    private func connectLater() {
        // Whoever waits on this thread tries by itself, too.
        guard !isToConnect.exchange(true, ordering: .relaxed) else { return }
        loop.add(
            ThreadRunLoop.Timer(after: Self.pause) { _ in
                self.isToConnect.store(false, ordering: .relaxed)
                self.connect()
            })
        loop.wakeUp()
    }

    private func greet() {
        let credentials = LocalSocket.credentials(of: descriptor)
        guard let credentials, credentials.uid == geteuid() else {
            log.warning(
                about: .process(credentials?.pid ?? 0), once: "poses",
                "process \(credentials?.pid ?? 0) of another user listens at \(address.path)")
            return end(.failed(.anotherUser(credentials)))
        }
        let answer = ThreadRunLoop.Source1(descriptor: descriptor, duplicates: false) { _ in
            self.hear()
            return true
        }
        phase.withLock { $0 = .greeting(credentials.pid, answer: answer) }
        ControlHello.send(to: descriptor, calling: peers.origin(of: address.incarnation, credentials.pid))
        do throws(PortError) {
            try runLoop { () throws(RunLoopError) in try loop.add(answer) }
        } catch {
            end(.failed(.other(error)))
        }
    }

    /// The other side's hello has come, or the end of the connection. On the housekeeping thread.
    private func hear() {
        let former = phase.withLock { phase in
            defer { phase = .over }
            return phase
        }
        guard case .greeting(let pid, let answer) = former else { return }
        answer.invalidate()
        switch ControlHello.receive(from: descriptor) {
        case .success(let hello)? where hello.major != ControlHello.major:
            end(.failed(.version(hello.major, of: pid)))
        case .success(let hello)? where hello.incarnation == address.incarnation:
            let peer = Peer(descriptor, incarnation: hello.incarnation, pid: pid, ownOrigin: hello.origin)
            do throws(PortError) {
                try peers.join(peer)
                peers.ended(self, .connected(peer))
            } catch {
                peers.ended(self, .failed(.other(error)))
            }
        case nil where LocalSocket.hasListener(address.path):
            end(.failed(.refused(by: pid)))
        default:
            end(.dead)
        }
    }

    /// There is no connection.
    private func end(_ outcome: Outcome) {
        phase.withLock { $0 = .over }
        crl_unforked_close(descriptor)
        peers.ended(self, outcome)
    }
}
