import CRunLoopShims
import Glibc
import RunLoops
import Synchronization

/// The processes that this one has rights to, or that have rights to ports of this one.
final class Peers: Sendable {
    private struct State {
        /// Two processes that call each other at the same time have two connections, which do no harm.
        var connected: [Incarnation: [Peer]] = [:]
        var calls: [ControlAddress: ControlCall] = [:]
        /// Where live processes have refused a call; they are called again after a rest.
        var resting: Set<ControlAddress> = []
        var origins: Origins

        /// Of a process that is neither connected nor called, nothing is kept.
        mutating func forgetIfGone(_ incarnation: Incarnation) {
            guard connected[incarnation] == nil, !calls.keys.contains(where: { $0.incarnation == incarnation }) else {
                return
            }
            origins.forget(incarnation)
        }
    }

    private let state: Mutex<State>

    init(origins: Origins = Origins()) { state = Mutex(State(origins: origins)) }

    /// So many processes at once may have a control connection to this one.
    static let most = 2048
    /// So many more may be about to say hello.
    static let mostCallers = 256
    let callers = Atomic(0)

    private func existing(_ incarnation: Incarnation) -> Peer? { state.withLock { $0.connected[incarnation]?.first } }

    private var all: [Peer] { state.withLock { $0.connected.values.flatMap(\.self) } }

    var count: Int { state.withLock { $0.connected.values.reduce(0) { $0 + $1.count } } }

    /// Whether there is a connection to the process already.
    func isConnected(to incarnation: Incarnation) -> Bool { existing(incarnation) != nil }

    // MARK: Calling

    enum Way {
        case peer(Peer)
        /// A call is under way.
        case call(ControlCall)
    }

    /// The way to the process that owns the channel's port.
    ///
    /// - Parameter former: The call that was returned before.
    func way(to channel: SendChannel, after former: ControlCall? = nil) throws(PortError) -> Way {
        if let peer = existing(channel.id.incarnation) { return .peer(peer) }
        if let former, let outcome = former.outcome.value { return .peer(try peer(of: channel, former, outcome)) }
        if let former { return .call(former) }
        return .call(try call(channel.controlAddress))
    }

    /// The peer that owns the channel's port, connected to if need be.
    func peer(of channel: SendChannel, before deadline: MonotonicInstant) throws(PortError) -> Peer {
        switch try way(to: channel) {
        case .peer(let peer): return peer
        case .call(let call): return try peer(of: channel, call, call.wait(until: deadline))
        }
    }

    /// The same, suspending the task.
    nonisolated(nonsending) func peer(
        of channel: SendChannel, before deadline: MonotonicInstant
    ) async throws -> Peer {
        switch try way(to: channel) {
        case .peer(let peer): return peer
        case .call(let call):
            let outcome = try await call.outcome.value(before: deadline)
            return try peer(of: channel, call, outcome)
        }
    }

    private func peer(
        of channel: SendChannel, _ call: ControlCall, _ outcome: ControlCall.Outcome?
    ) throws(PortError) -> Peer {
        switch outcome {
        case nil: throw call.lateError(channel.description)
        case .connected(let peer)?: return peer
        case .dead?: throw .isInvalid(port: channel.description)
        case .failed(let failure)?: throw failure.error(channel.description)
        }
    }

    /// The call that is under way, or a new one.
    private func call(_ address: ControlAddress) throws(PortError) -> ControlCall {
        let (call, isNew) = try state.withLock { (state) throws(PortError) in
            if let call = state.calls[address] { return (call, false) }
            let made = try ControlCall(address, self)
            state.calls[address] = made
            return (made, true)
        }
        if isNew { call.begin() }
        return call
    }

    /// A call has come to its end.
    func ended(_ call: ControlCall, _ outcome: ControlCall.Outcome) {
        let address = call.address
        state.withLock { state in
            state.calls[address] = nil
            state.forgetIfGone(address.incarnation)
        }
        switch outcome {
        case .connected: break
        case .dead: PortProcess.current.processDied(address)
        // Another version will not answer the next time either.
        case .failed(.version): break
        case .failed: callLater(address)
        }
        call.outcome.set(outcome)
    }

    private static let rest = Duration.seconds(1)

    /// Nobody would tell the end of a process that refuses connections now; so it is called again as long as there are
    /// rights to its ports.
    private func callLater(_ address: ControlAddress) {
        guard !PortProcess.current.channels(of: address).isEmpty,
            let loop = try? PortProcess.current.housekeepingLoop(),
            state.withLock({ $0.resting.insert(address).inserted })
        else { return }
        loop.add(
            ThreadRunLoop.Timer(after: Self.rest) { _ in
                self.state.withLock { _ = $0.resting.remove(address) }
                self.callIfNeeded(address)
            })
        if loop.isCurrent { loop.wakeUp() }
    }

    /// Calls a process whose connection has ended: at once, but one that hangs up again and again once a second.
    private func callAgain(_ address: ControlAddress) {
        guard !state.withLock({ $0.resting.contains(address) }) else { return }
        callIfNeeded(address)
        callLater(address)
    }

    /// Calls a process that there are rights to, and no connection.
    private func callIfNeeded(_ address: ControlAddress) {
        guard !isConnected(to: address.incarnation), !PortProcess.current.channels(of: address).isEmpty else { return }
        if (try? call(address)) == nil { callLater(address) }
    }

    /// Has the port's owner tell its end, now or when there is a connection. Waits for nothing.
    func watch(_ channel: SendChannel) {
        if let peer = existing(channel.id.incarnation) {
            peer.send(.watch(channel.id.number))
        } else if (try? call(channel.controlAddress)) == nil {
            callLater(channel.controlAddress)
        }
    }

    // MARK: Being called

    /// Somebody has said hello at a control socket of ours.
    func accept(_ descriptor: Int32) {
        let credentials = LocalSocket.credentials(of: descriptor)
        guard case .success(let hello)? = ControlHello.receive(from: descriptor) else {
            return refuse(descriptor, credentials, "says no hello")
        }
        // A process's incarnation is its own; with another's, this one could end the rights to that one's ports.
        let isTaken = existing(hello.incarnation).map { $0.pid != credentials?.pid } ?? false
        if isTaken || hello.incarnation == PortProcess.current.incarnation {
            return refuse(descriptor, credentials, "calls itself what another process is called")
        }
        guard hello.major == ControlHello.major else {
            // Its own library tells it whose version is the older.
            ControlHello.send(to: descriptor, calling: 0)
            return refuse(
                descriptor, credentials,
                "speaks version \(hello.major) of the control protocol, and this library version \(ControlHello.major)")
        }
        let peer = Peer(
            descriptor, incarnation: hello.incarnation, pid: credentials?.pid ?? 0, ownOrigin: hello.origin)
        try? join(peer, greets: true)
    }

    func refuse(_ descriptor: Int32, _ credentials: LocalSocket.Credentials?, _ reason: String) {
        crl_unforked_close(descriptor)
        let (pid, user) = (credentials?.pid ?? 0, credentials.map { Int($0.uid) } ?? -1)
        log.warning(about: .process(pid), once: reason, "refused process \(pid) of user \(user): it \(reason)")
    }

    // MARK: Both

    /// - Parameter greets: Whether it waits for our hello.
    func join(_ peer: Peer, greets: Bool = false) throws(PortError) {
        let loop = try PortProcess.current.housekeepingLoop()
        state.withLock { state in
            state.connected[peer.incarnation, default: []].append(peer)
            // Nothing may reach it before our hello; and what it asks right after that is another thread's to refuse,
            // which has to find it.
            if greets {
                let origin = state.origins.number(of: .init(incarnation: peer.incarnation, pid: peer.pid))
                ControlHello.send(to: peer.descriptor, calling: origin)
            }
        }
        // A duplicate would stay open in a forked child.
        let source = ThreadRunLoop.Source1(descriptor: peer.descriptor, duplicates: false) { turn in
            if peer.receive() { return true }
            turn.source.invalidate()
            self.ended(peer)
            return true
        }
        do throws(PortError) {
            try runLoop { () throws(RunLoopError) in try loop.add(source) }
        } catch {
            // Its end would not be noticed.
            leave(peer)
            throw error
        }
        renewWatches(at: peer)
    }

    /// Asks for the ends of all ports that somebody wants to know the end of.
    private func renewWatches(at peer: Peer) {
        for channel in PortProcess.current.channels(of: peer.incarnation) where channel.isWatched {
            peer.send(.watch(channel.id.number))
        }
    }

    private func leave(_ peer: Peer) {
        peer.closed()
        state.withLock { state in
            state.connected[peer.incarnation]?.removeAll { $0 === peer }
            if state.connected[peer.incarnation]?.isEmpty == true { state.connected[peer.incarnation] = nil }
            state.forgetIfGone(peer.incarnation)
        }
    }

    /// A connection has ended. Whether its process has, a new call will show.
    private func ended(_ peer: Peer) {
        leave(peer)
        let channels = PortProcess.current.channels(of: peer.incarnation)
        for channel in channels { channel.controlConnectionEnded() }
        if let other = existing(peer.incarnation) {
            renewWatches(at: other)
        } else {
            for address in Set(channels.map(\.controlAddress)) { callAgain(address) }
        }
        PortProcess.current.sentCounts.connectionEnded(peer.incarnation)
    }

    /// A port of ours is invalid: those who asked are told.
    func tellInvalidated(_ number: UInt64) {
        for peer in all { peer.tellInvalidated(number) }
    }

    /// A port of ours has taken so many bytes of what the process has sent to it.
    func tellTaken(bytes: Int, of port: UInt64, to origin: UInt32) {
        peer(called: origin)?.send(.taken(port, bytes: UInt64(bytes)))
    }

    /// A port of ours has taken all that came before a question of the process's.
    func tellDrained(_ question: UInt64, of port: UInt64, to origin: UInt32) {
        peer(called: origin)?.send(.drained(port, question: question))
    }

    /// What this process calls another, which it is about to greet.
    func origin(of incarnation: Incarnation, _ pid: pid_t) -> UInt32 {
        state.withLock { $0.origins.number(of: .init(incarnation: incarnation, pid: pid)) }
    }

    private func peer(called origin: UInt32) -> Peer? {
        state.withLock { state in
            guard let owner = state.origins.owner(of: origin) else { return nil }
            return state.connected[owner.incarnation]?.first { $0.pid == owner.pid }
        }
    }

    /// So many messages were sent to a port of the process's.
    func tellSent(_ count: Int, to port: PortID) {
        existing(port.incarnation)?.send(.sent(port.number, count: UInt64(count)))
    }

    /// Those who may have sent something to a port of ours.
    func watching(_ port: UInt64) -> [Peer] {
        state.withLock { $0.connected.values.compactMap { $0.first { $0.watches(port) } } }
    }

    /// A request of the process's will have no reply.
    func tellUnanswered(_ request: UInt64, to incarnation: Incarnation) {
        existing(incarnation)?.send(.unanswered(request))
    }
}
