import Glibc
import RunLoopLocks
import RunLoops
import Synchronization

/// The control connections of a runtime: to the owners of ports that it has rights to, and from the processes that have
/// rights to its ports.
final class ControlConnectionTable: Sendable {
    private struct State {
        /// Two processes that call each other at the same time may make two connections. Both are used.
        var connected: [Incarnation: [ControlConnection]] = [:]
        var handshakes: [ControlAddress: ControlHandshake] = [:]
        /// Live processes that have refused a handshake or cut a connection. The next attempt is scheduled.
        var resting: Set<ControlAddress> = []
        /// The peers whose connections have ended. One stays while this runtime has rights to its ports.
        var former: [Incarnation: FormerPeer] = [:]
        /// The processes that have reported that they crash, and that have connections.
        var crashed: Set<Incarnation> = []
        /// The ports that could not return credit, because a connection had ended.
        var owing: Set<UInt64> = []
        var unsent = UnsentNotices()
        var isClosed = false
        var origins: Origins
        let incarnation: Incarnation
        let takesRings: Bool
        weak var events: (any RuntimeEvents)?

        mutating func hello(to peer: Incarnation, _ pid: pid_t) -> ControlHello {
            ControlHello(
                incarnation: incarnation, origin: origins.number(of: .init(incarnation: peer, pid: pid)),
                takesRings: takesRings)
        }

        func connection(_ origin: UInt32) -> ControlConnection? {
            guard let owner = origins.owner(of: origin) else { return nil }
            // The newest connection, because the end of an older one may not be known yet.
            return connected[owner.incarnation]?.last { $0.pid == owner.pid }
        }

        /// Forgets a process that has neither a connection nor a handshake.
        mutating func removeIfGone(_ peer: Incarnation) {
            guard connected[peer] == nil, !handshakes.keys.contains(where: { $0.incarnation == peer }) else { return }
            crashed.remove(peer)
            origins.remove(peer)
        }
    }

    let incarnation: Incarnation
    let housekeeping: Housekeeping
    let sockets = SocketFactory()
    private let state: Lock<State>

    /// The runtime; nil before it is complete, and after its end.
    var events: (any RuntimeEvents)? {
        get { state.withLock { $0.events } }
        set { state.withLock { $0.events = newValue } }
    }

    static let most = 2048
    /// The most accepted connections whose callers have not sent their hellos.
    static let mostCallers = 256
    /// The most connections that the kernel may accept at a listening socket.
    static let mostAccepted = most + mostCallers
    /// The most handshakes under way. A peer can name any number of silent processes in reply rights.
    static let mostHandshakes = 256
    let callers = Atomic(0)
    /// When this number of packets wait for all peers together, a peer that does not read is cut off sooner.
    static let manyPackets = 1 << 20
    let waitingPackets = Atomic(0)

    /// Whether this process can map rings.
    let takesRings: Bool

    init(
        _ incarnation: Incarnation, _ housekeeping: Housekeeping, origins: Origins = Origins(), takesRings: Bool = true
    ) {
        state = Lock(State(origins: origins, incarnation: incarnation, takesRings: takesRings))
        self.takesRings = takesRings
        self.incarnation = incarnation
        self.housekeeping = housekeeping
    }

    func existing(_ peer: Incarnation) -> ControlConnection? { connections(to: peer).first }
    private func connections(to peer: Incarnation) -> [ControlConnection] {
        state.withLock { $0.connected[peer] ?? [] }
    }
    private var all: [ControlConnection] { state.withLock { $0.connected.values.flatMap(\.self) } }
    var handshakeCount: Int { state.withLock { $0.handshakes.count } }
    /// The processes that have a connection with this one.
    var peerCount: Int { state.withLock { $0.connected.count } }

    var hasRoom: Bool { all.count < Self.most && callers.load(ordering: .relaxed) < Self.mostCallers }
    func isConnected(to peer: Incarnation) -> Bool { existing(peer) != nil }
    /// Whether the peer has a connection that it has not hung up. A process hangs up with its end, and the library's own
    /// thread may learn that later.
    func isConnectedNow(to peer: Incarnation) -> Bool { existing(peer).map { !$0.socket.hasHungUp } ?? false }
    /// The process of a peer; nil without a connection to it.
    func owner(of peer: Incarnation) -> ProcessIdentity? { existing(peer)?.owner }

    // MARK: Calling

    enum Route {
        case connection(ControlConnection)
        case handshake(ControlHandshake)
    }

    /// Finds the way to a port's owner.
    /// - Parameters:
    ///   - port: The port, for errors.
    ///   - address: The address of the owner's control socket.
    ///   - last: The handshake that the last call has returned, if any.
    /// - Returns: The connection, or the handshake to wait for before the next call.
    /// - Throws: The error of a handshake that has failed.
    func route(to port: PortIdentity, at address: ControlAddress, after last: ControlHandshake?) throws(PortError)
        -> Route
    {
        if let connection = existing(address.incarnation) { return .connection(connection) }
        guard let last else { return .handshake(try handshake(address)) }
        guard let outcome = last.outcome.value else { return .handshake(last) }
        return .connection(try outcome.connection(for: port))
    }

    private func handshake(_ address: ControlAddress) throws(PortError) -> ControlHandshake {
        let (handshake, isNew) = try state.withLock { (state) throws(PortError) in
            if state.isClosed { throw .isEnding }
            if let handshake = state.handshakes[address] { return (handshake, false) }
            guard state.handshakes.count < Self.mostHandshakes else {
                throw .unavailable(reason: "\(Self.mostHandshakes) processes do not answer the connections of this one")
            }
            let made = try ControlHandshake(address, state.former[address.incarnation], self)
            state.handshakes[address] = made
            return (made, true)
        }
        if isNew { handshake.begin() }
        return handshake
    }

    func ended(_ handshake: ControlHandshake, _ outcome: ControlHandshake.Outcome) {
        let address = handshake.address
        state.withLock { state in
            state.handshakes[address] = nil
            state.removeIfGone(address.incarnation)
        }
        if !outcome.isConnected {
            log.debug("no connection to \(address.incarnation.shortDescription): \(outcome.text)")
        }
        switch outcome {
        case .dead:
            state.withLock { $0.former[address.incarnation] = nil }
            events?.processDied(address)
        case .noConnection, .failed: reconnect(address, now: false)
        // No further attempt after `otherVersion`, because the peer's version stays the same.
        case .connected, .otherVersion: break
        }
        handshake.outcome.set(outcome)
    }

    private func rights(to peer: Incarnation) -> [PeerRight] { events?.rights(to: peer) ?? [] }

    /// Whether there are rights to ports of the process at the address. Forgets a process without any.
    func isWanted(_ address: ControlAddress) -> Bool {
        let rights = rights(to: address.incarnation)
        if rights.isEmpty { state.withLock { $0.former[address.incarnation] = nil } }
        return rights.contains { $0.address == address }
    }

    /// Connects again, now or in a second, and at most once a second, as long as there are rights to the process's
    /// ports. Only a connection reports the end of those ports.
    private func reconnect(_ address: ControlAddress, now: Bool) {
        guard isWanted(address), state.withLock({ $0.resting.insert(address).inserted }) else { return }
        if !now { log.debug("will connect to \(address.incarnation.shortDescription) again in a second") }
        housekeeping.perform(after: .seconds(1)) {
            self.state.withLock { _ = $0.resting.remove(address) }
            if !self.isConnected(to: address.incarnation) { self.reconnect(address, now: true) }
        }
        if now { _ = try? handshake(address) }
    }

    /// Asks the port's owner to report the port's end, now or when there is a connection. Never waits.
    func watch(_ port: PortID, at address: ControlAddress) {
        if let connection = existing(port.incarnation) {
            connection.notePlace()
            connection.send(.watch(port.number))
        } else if (try? handshake(address)) == nil {
            reconnect(address, now: false)
        }
    }

    // MARK: Being called

    func accept(_ socket: ControlSocket) {
        let credentials = PeerCredentials(of: socket.descriptor)
        guard case .success(let hello)? = socket.receiveHello() else {
            return refuse(credentials, "it sent no hello")
        }
        // A process that used another's incarnation could invalidate the rights to the other's ports. All processes
        // outside this pid namespace have the pid 0.
        let isTaken = connections(to: hello.incarnation).contains { other in
            other.pid != credentials?.pid || other.pid == 0 && !other.socket.hasHungUp
        }
        if isTaken || hello.incarnation == incarnation {
            return refuse(credentials, "its incarnation belongs to another process")
        }
        guard hello.version == ControlHello.version else {
            // The caller's own library reports which version is the older one.
            _ = socket.send(ControlHello(incarnation: incarnation))
            let (theirs, ours) = (hello.version, ControlHello.version)
            let reason = "it speaks version \(theirs) of the control protocol, and this library version \(ours)"
            return refuse(credentials, reason)
        }
        try? add(ControlConnection(socket, hello, credentials?.pid ?? 0, self), sendsHello: true)
    }

    /// Logs the refusal of a caller, whose socket the caller of this function releases.
    func refuse(_ credentials: PeerCredentials?, _ reason: String) {
        let (pid, user) = (credentials?.pid ?? 0, credentials.map { Int($0.uid) } ?? -1)
        log.warning(
            about: .process(pid), once: reason, "refused \(ProcessIdentity(pid: pid)) of user \(user): \(reason)")
    }

    // MARK: Both

    func hello(to peer: Incarnation, _ pid: pid_t) -> ControlHello { state.withLock { $0.hello(to: peer, pid) } }

    /// - Parameter sendsHello: Whether the peer waits for our hello.
    func add(_ connection: ControlConnection, sendsHello: Bool = false) throws(PortError) {
        let peer = connection.incarnation
        try state.withLock { (state) throws(PortError) in
            if state.isClosed { throw .isEnding }
            // The hello must be the first packet, so it is sent before other threads can find the connection.
            guard !sendsHello || connection.socket.send(state.hello(to: peer, connection.pid)) else {
                state.removeIfGone(peer)
                throw .last("send")
            }
            state.connected[peer, default: []].append(connection)
            state.former[peer] = nil
        }
        // A duplicate would stay open in a forked child.
        let source = ThreadRunLoop.Source1(descriptor: connection.socket.descriptor, duplicates: false) { turn in
            if connection.receive() { return true }
            turn.source.invalidate()
            self.ended(connection)
            return true
        }
        do throws(PortError) {
            try housekeeping.add(source)
        } catch {
            // Without the source, nobody would notice the end of the connection.
            remove(connection)
            throw error
        }
        log.debug("\(sendsHello ? "accepted a connection of" : "connected to") \(connection.text)")
        connection.notePlace()
        renewWatches(at: connection)
        let (notices, owing) = state.withLock { ($0.unsent.take(for: peer), exchange(&$0.owing, with: [])) }
        for message in notices { connection.send(message) }
        events?.connectionBegan(connection, owing: owing)
    }

    private func renewWatches(at connection: ControlConnection) {
        for right in rights(to: connection.incarnation) where right.isWatched {
            connection.send(.watch(right.port.number))
        }
    }

    private func remove(_ connection: ControlConnection) {
        let peer = connection.incarnation
        connection.notePlace()
        let former = connection.former
        state.withLock { state in
            state.connected[peer]?.removeAll { $0 === connection }
            if state.connected[peer]?.isEmpty == true {
                // At once, because another thread may begin a handshake.
                (state.connected[peer], state.former[peer]) = (nil, former)
            }
            state.removeIfGone(peer)
        }
        if rights(to: peer).isEmpty { state.withLock { $0.former[peer] = nil } }
        sendAgain(connection.closed(), to: peer)
    }

    /// A connection has ended. The next handshake shows whether the process has ended, too.
    private func ended(_ connection: ControlConnection) {
        remove(connection)
        let peer = connection.incarnation
        let other = existing(peer)
        log.debug("lost the connection to \(connection.text)\(other == nil ? "" : ", and there is another")")
        events?.connectionEnded(connection, isLast: other == nil)
        if let other {
            renewWatches(at: other)
        } else {
            for address in Set(rights(to: peer).map(\.address)) { reconnect(address, now: true) }
        }
    }

    /// Handles the packets that have come. Called on the housekeeping thread.
    func receiveAll() {
        // Each call reads a bounded number, and a peer may send without end.
        for connection in all where (0..<16).contains(where: { _ in !connection.receive() }) { connection.cut() }
    }

    /// The process has reported that it crashes. It writes a backtrace, and answers nothing any more.
    func noteCrash(of peer: Incarnation) {
        state.withLock { state in if state.connected[peer] != nil { state.crashed.insert(peer) } }
    }

    /// Whether the process is alive according to the kernel: it holds the other end of a connection, is not exiting, and
    /// has not reported a crash.
    func isAlive(_ peer: Incarnation) -> Bool {
        let connections = connections(to: peer)
        return !connections.isEmpty && state.withLock { !$0.crashed.contains(peer) }
            && connections.allSatisfy { !$0.socket.hasHungUp && !ProcessStatus.isEnding($0.pid) }
    }

    /// Whether the process may be alive: as ``isAlive(_:)``, and also when its connections have ended, as long as the kernel
    /// has it.
    func mayBeAlive(_ peer: Incarnation) -> Bool {
        let (connections, former) = state.withLock { state in
            state.crashed.contains(peer) ? ([], nil) : (state.connected[peer] ?? [], state.former[peer])
        }
        guard let last = connections.last else { return former?.process.state == .running }
        return last.process.state == .running || !last.socket.hasHungUp && last.process.state != .ended
    }

    /// Whether the process reads nothing: it is stopped, or hangs.
    func isDeaf(_ peer: Incarnation) -> Bool { connections(to: peer).contains(where: \.socket.hasUnread) }

    /// Cuts the connections of a process that has not answered in time, if the process is dead. A child of it, between
    /// fork and exec, may hold them open.
    func noteSilence(of peer: Incarnation) {
        for connection in connections(to: peer) where ProcessStatus.isEnding(connection.pid) { connection.cut() }
    }

    func close() {
        let (connections, handshakes) = state.withLock { state in
            state.isClosed = true
            defer { (state.connected, state.handshakes) = ([:], [:]) }
            return (state.connected.values.flatMap(\.self), state.handshakes.values)
        }
        for connection in connections {
            log.debug("closed the connection to \(connection.text)")
            connection.closed()
            connection.cut()
        }
        for handshake in handshakes { handshake.outcome.set(.failed(.isEnding)) }
    }

    // MARK: Telling peers

    func tellInvalidated(_ number: UInt64) { for connection in all { connection.tellInvalidated(number) } }

    /// Sends a message. Without a connection, a notice about a request waits for the next one.
    func send(_ message: ControlMessage, to peer: Incarnation) {
        let connection = state.withLock { state in
            let connection = state.connected[peer]?.first
            if connection == nil, message.isAwaited { state.unsent.add(message, for: peer) }
            return connection
        }
        connection?.send(message)
    }

    /// Drops the notices for a process that is dead.
    func forgetNotices(for peer: Incarnation) {
        // Released after the lock.
        let former = state.withLock { $0.unsent.take(for: peer) }
        withExtendedLifetime(former) {}
    }

    /// Sends the notices about requests among the unsent messages of a connection that has ended. All other messages
    /// are renewed, or asked for again.
    func sendAgain(_ unsent: some Sequence<ControlMessage>, to peer: Incarnation) {
        for message in unsent where message.isAwaited { send(message, to: peer) }
    }

    /// - Returns: False when there is no connection.
    @discardableResult
    func send(_ message: ControlMessage, to origin: UInt32) -> Bool {
        let connection = state.withLock { $0.connection(origin) }
        connection?.send(message)
        return connection != nil
    }

    /// Notes that the port owes credit to a sender. The next connection reports that.
    /// - Returns: False when a connection to the sender was made meanwhile.
    func noteOwing(_ number: UInt64, to origin: UInt32) -> Bool {
        state.withLock { state in
            guard state.connection(origin) == nil else { return false }
            state.owing.insert(number)
            return true
        }
    }

    /// The peers that may have sent messages to a port of this runtime.
    func watchers(of number: UInt64) -> [ControlConnection] {
        state.withLock { $0.connected.values.compactMap { $0.first { $0.watches(number) } } }
    }

    /// All connections by which peers watch a port of this runtime. A peer that has two may have heard by either of them.
    func allWatchers(of number: UInt64) -> [ControlConnection] {
        state.withLock { $0.connected.values.flatMap { $0.filter { $0.watches(number) } } }
    }
}
