import CRunLoopShims
import Glibc
import RunLoops
import Synchronization

/// The processes that this one has rights to, or that have rights to ports of this one.
final class Peers: Sendable {
    private let connected = Mutex<[Incarnation: [Peer]]>([:])

    /// So many processes at once may have a control connection to this one.
    static let most = 2048
    /// So many more may be about to say hello.
    static let mostCallers = 256
    let callers = Atomic(0)

    private func existing(_ incarnation: Incarnation) -> Peer? { connected.withLock { $0[incarnation]?.first } }

    var count: Int { connected.withLock { $0.values.reduce(0) { $0 + $1.count } } }

    /// Whether there is a connection to the process already.
    func isConnected(to incarnation: Incarnation) -> Bool { existing(incarnation) != nil }

    /// The peer that owns the channel's port, connected to if need be.
    func peer(of channel: SendChannel, before deadline: MonotonicInstant) throws(PortError) -> Peer {
        if let peer = existing(channel.id.incarnation) { return peer }
        let descriptor = try LocalSocket.make(.sequencedPackets)
        let peer: Peer
        do throws(PortError) {
            while try !connect(descriptor, channel, before: deadline) { usleep(2_000) }
            try greet(descriptor, channel)
            _ = isReadable(descriptor, before: deadline)
            peer = try greeted(descriptor, channel)
        } catch {
            close(descriptor)
            throw error
        }
        // Another thread may have been as fast; two connections do no harm.
        try join(peer)
        return peer
    }

    /// The same, suspending the task.
    nonisolated(nonsending) func peer(
        of channel: SendChannel, before deadline: MonotonicInstant
    ) async throws -> Peer {
        if let peer = existing(channel.id.incarnation) { return peer }
        let descriptor = try LocalSocket.make(.sequencedPackets)
        let peer: Peer
        do {
            while try !connect(descriptor, channel, before: deadline) { try await Task.sleep(for: .milliseconds(2)) }
            try greet(descriptor, channel)
            let waiter = TaskWaiter()
            while !isReadable(descriptor, before: .distantPast), !deadline.hasPassed {
                try waiter.watch(descriptor)
                try await waiter.wait(until: deadline)
                try Task.checkCancellation()
            }
            peer = try greeted(descriptor, channel)
        } catch {
            close(descriptor)
            throw error
        }
        try join(peer)
        return peer
    }

    // MARK: Calling

    /// - Returns: False when it has to be tried again: so many wait to be let in that the kernel takes no more, and it
    ///   does not tell when it would.
    private func connect(
        _ descriptor: Int32, _ channel: SendChannel, before deadline: MonotonicInstant
    ) throws(PortError) -> Bool {
        switch LocalSocket.connect(descriptor, to: controlPath(of: channel)) {
        case 0:
            return true
        case EAGAIN, EINTR:
            if !deadline.hasPassed { return false }
            throw .cannotConnect(port: channel.description, reason: "its owner takes no connection in time")
        case ENOENT, ECONNREFUSED, ENOTDIR, ENAMETOOLONG:
            throw .isInvalid(port: channel.description)
        case let error:
            throw .cannotConnect(port: channel.description, reason: String(cString: strerror(error)))
        }
    }

    /// Says hello.
    private func greet(_ descriptor: Int32, _ channel: SendChannel) throws(PortError) {
        let credentials = LocalSocket.credentials(of: descriptor)
        guard credentials?.uid == geteuid() else {
            let (pid, user) = (credentials?.pid ?? 0, credentials.map { Int($0.uid) } ?? -1)
            log.warning(
                about: .process(pid), once: "poses", "process \(pid) of user \(user) poses as the owner of \(channel)")
            throw .cannotConnect(
                port: channel.description, reason: "process \(pid), in its owner's place, belongs to user \(user)")
        }
        sendHello(descriptor)
    }

    /// Makes sure that the one who answers is the one meant.
    private func greeted(_ descriptor: Int32, _ channel: SendChannel) throws(PortError) -> Peer {
        let pid = LocalSocket.credentials(of: descriptor)?.pid ?? 0
        guard isReadable(descriptor, before: .distantPast) else {
            throw .cannotConnect(
                port: channel.description, reason: "process \(pid), its owner, does not answer in time")
        }
        switch receiveHello(descriptor) {
        case .success(let hello)? where hello.major != ControlHello.major:
            throw .incompatibleVersion(
                what: "process \(pid), which owns \(channel.description),", ours: Int(ControlHello.major),
                theirs: Int(hello.major))
        case .success(let hello)? where hello.incarnation == channel.id.incarnation:
            return Peer(descriptor, incarnation: hello.incarnation, pid: pid)
        case nil where LocalSocket.hasListener(controlPath(of: channel)):
            throw .cannotConnect(
                port: channel.description, reason: "process \(pid), its owner, refuses the connection")
        default:
            throw .isInvalid(port: channel.description)
        }
    }

    private func controlPath(of channel: SendChannel) -> String { "\(channel.path)/\(channel.id.incarnation)/c" }

    // MARK: Being called

    /// Somebody has said hello at a control socket of ours.
    func accept(_ descriptor: Int32) {
        let credentials = LocalSocket.credentials(of: descriptor)
        guard case .success(let hello)? = receiveHello(descriptor) else {
            return refuse(descriptor, credentials, "says no hello")
        }
        // A process's incarnation is its own; with another's, this one could end the rights to that one's ports.
        let isTaken = existing(hello.incarnation).map { $0.pid != credentials?.pid } ?? false
        if isTaken || hello.incarnation == PortProcess.current.incarnation {
            return refuse(descriptor, credentials, "calls itself what another process is called")
        }
        guard hello.major == ControlHello.major else {
            // Its own library tells it whose version is the older.
            sendHello(descriptor)
            return refuse(
                descriptor, credentials,
                "speaks version \(hello.major) of the control protocol, and this library version \(ControlHello.major)")
        }
        try? join(Peer(descriptor, incarnation: hello.incarnation, pid: credentials?.pid ?? 0), greets: true)
    }

    func refuse(_ descriptor: Int32, _ credentials: LocalSocket.Credentials?, _ reason: String) {
        close(descriptor)
        let (pid, user) = (credentials?.pid ?? 0, credentials.map { Int($0.uid) } ?? -1)
        log.warning(about: .process(pid), once: reason, "refused process \(pid) of user \(user): it \(reason)")
    }

    // MARK: Both

    private enum HelloError: Error { case malformed }

    private func sendHello(_ descriptor: Int32) {
        withUnsafeTemporaryAllocation(byteCount: ControlHello.size, alignment: 8) { buffer in
            ControlHello(incarnation: PortProcess.current.incarnation).write(to: buffer)
            // The first packet always has room.
            _ = Glibc.send(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_NOSIGNAL))
        }
    }

    /// Nil at the end of the connection.
    private func receiveHello(_ descriptor: Int32) -> Result<ControlHello, HelloError>? {
        withUnsafeTemporaryAllocation(byteCount: 256, alignment: 8) { buffer in
            let count = recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
            guard count > 0 else { return nil }
            return ControlHello(UnsafeRawBufferPointer(rebasing: buffer[..<count])).map { .success($0) }
                ?? .failure(.malformed)
        }
    }

    private func isReadable(_ descriptor: Int32, before deadline: MonotonicInstant) -> Bool {
        while true {
            let count = crl_poll(descriptor, -1, deadline.timeout)
            if count > 0 { return true }
            if count == 0 || errno != EINTR { return false }
        }
    }

    /// - Parameter greets: Whether it waits for our hello.
    private func join(_ peer: Peer, greets: Bool = false) throws(PortError) {
        let loop = try PortProcess.current.housekeepingLoop()
        guard crl_close_in_child(peer.descriptor) else {
            throw .cannotConnect(port: "process \(peer.pid)", reason: "this process has too many peers")
        }
        connected.withLock { connected in
            connected[peer.incarnation, default: []].append(peer)
            // Nothing may reach it before our hello; and what it asks right after that is another thread's to refuse,
            // which has to find it.
            if greets { sendHello(peer.descriptor) }
        }
        // A duplicate would stay open in a forked child.
        let source = ThreadRunLoop.Source1(descriptor: peer.descriptor, duplicates: false) { turn in
            if peer.receive() { return true }
            turn.source.invalidate()
            PortProcess.current.peers.ended(peer)
            return true
        }
        do throws(PortError) {
            try runLoop { () throws(RunLoopError) in try loop.add(source) }
        } catch {
            // Its end would not be noticed.
            leave(peer)
            throw error
        }
    }

    /// - Returns: Whether the peer's process has ended.
    @discardableResult
    private func leave(_ peer: Peer) -> Bool {
        let hasEnded = peer.closed()
        connected.withLock { connected in
            connected[peer.incarnation]?.removeAll { $0 === peer }
            if connected[peer.incarnation]?.isEmpty == true { connected[peer.incarnation] = nil }
        }
        return hasEnded
    }

    private func ended(_ peer: Peer) {
        if leave(peer) { PortProcess.current.processDied(peer.incarnation) }
        PortProcess.current.sentCounts.connectionEnded(peer.incarnation)
    }

    /// A port of ours is invalid: those who asked are told.
    func tellInvalidated(_ number: UInt64) {
        for peer in connected.withLock({ $0.values.flatMap(\.self) }) { peer.tellInvalidated(number) }
    }

    /// Asks the port's owner to tell its end, if there is a connection already.
    func watch(_ port: PortID) { existing(port.incarnation)?.send(.watch(port.number)) }

    /// A port of ours has taken so many bytes of what the process has sent to it.
    func tellTaken(bytes: Int, of port: UInt64, to pid: pid_t) {
        let peer = connected.withLock { $0.values.joined().first { $0.pid == pid } }
        peer?.send(.taken(port, bytes: UInt64(bytes)))
    }

    /// A port of ours has taken all that came before a question of the process's.
    func tellDrained(_ question: UInt64, of port: UInt64, to pid: pid_t) {
        // Of processes that are all known as 0, the one that has asked knows its question.
        for peer in connected.withLock({ $0.values.joined().filter { $0.pid == pid } }) {
            peer.send(.drained(port, question: question))
        }
    }

    /// So many messages were sent to a port of the process's.
    func tellSent(_ count: Int, to port: PortID) {
        existing(port.incarnation)?.send(.sent(port.number, count: UInt64(count)))
    }

    /// Those who may have sent something to a port of ours.
    func watching(_ port: UInt64) -> [Peer] {
        connected.withLock { $0.values.compactMap { $0.first { $0.watches(port) } } }
    }

    /// A request of the process's will have no reply.
    func tellUnanswered(_ request: UInt64, to incarnation: Incarnation) {
        existing(incarnation)?.send(.unanswered(request))
    }
}
