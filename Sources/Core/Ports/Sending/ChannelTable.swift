import RunLoopLocks
import Synchronization

/// The channels of a runtime, at most one to each port, and what they share. A channel lives as long as there are
/// rights to its port.
final class ChannelTable: Sendable {
    /// No strong reference to a channel ends under the lock, because the release of a channel takes it.
    private struct State {
        /// By process, and by the port's number.
        var entries: [Incarnation: [UInt64: Weak<SendChannel>]] = [:]
        /// The homes of ports that have moved and that this runtime has channels to.
        var homes: [PortID: PortID] = [:]
        /// Whether the runtime is ending. A further channel could send more than the port's limit, beside the closed one.
        var isEnding = false

        /// The port at its home.
        func home(of port: PortID) -> PortID { homes.isEmpty ? port : homes[port] ?? port }

        subscript(port: PortID) -> SendChannel? {
            get { entries[port.incarnation]?[port.number]?.object }
            set {
                entries[port.incarnation, default: [:]][port.number] = newValue.map { Weak($0) }
                if newValue == nil, entries[port.incarnation]?.isEmpty == true { entries[port.incarnation] = nil }
            }
        }
    }

    /// The secret number in this runtime's bells.
    let mark = UInt32.random(in: 1 ... .max)
    /// The posted messages that wait beyond what each channel may have.
    let extraPosts = Atomic(0)
    /// Whether the runtime ends, waits for the posted messages, and takes no more of them.
    let isFlushing = Atomic(false)
    /// The requests that the runtime's ports have refused.
    let refusedCount = Atomic(0)
    /// The messages that waited in the runtime's ports when those ended, and whose senders were not told.
    let droppedCount = Atomic(0)
    /// The messages that released channels have sent.
    private let formerlySent = Atomic(0)
    let control: ControlConnectionTable
    let connections: IdleConnections
    let connectedSockets = ConnectedSockets()
    private let state = Lock(State())
    private let followers = Lock<[PortID: [Weak<SendChannel>]]>([:])
    private let waited = Lock<[ObjectIdentifier: Weak<SendChannel>]>([:])

    init(_ control: ControlConnectionTable) {
        self.control = control
        connections = IdleConnections(control.housekeeping)
    }

    var incarnation: Incarnation { control.incarnation }
    var housekeeping: Housekeeping { control.housekeeping }
    var sockets: SocketFactory { control.sockets }

    /// The channel to a new port of this runtime.
    /// - Parameter publicID: The identity of a port that comes from another process; nil for another port.
    func addOwnChannel(_ right: WireRight, of publicID: PortID?, _ queue: LocalQueue) -> SendChannel {
        let channel = SendChannel(right, of: publicID, in: self, localQueue: queue)
        state.withLock { $0[right.id] = channel }
        return channel
    }

    /// The channel to a port: the existing one, or a new one. Callers that have just found the port in a live process's
    /// entry replace an invalid channel to that process.
    /// - Parameter publicID: The identity of a port that was found at its home after a move; nil when the right names the
    ///   port itself.
    func channel(to right: WireRight, of publicID: PortID? = nil, replacesInvalid: Bool = false) -> SendChannel {
        // At the fork, another thread may have held the lock.
        if Fork.isChild { return .invalid(right, in: self) }
        // Existing channels are looked up first, to avoid the cost of a new channel. Each request brings its asker's
        // right.
        let (home, former) = state.withLock { state in
            let home = publicID == nil ? state.home(of: right.id) : right.id
            return (home, state[home])
        }
        let isOwn = home.incarnation == incarnation
        if let former, !replacesInvalid || isOwn || former.isValid { return former.latest }
        // Without a path, nobody can find the owner.
        if right.path.isEmpty { return .invalid(right, in: self) }
        if isOwn {
            // A port of this runtime without a channel is gone, or it has moved.
            let home = control.events?.home(of: publicID ?? right.id, in: right.path)
            guard let home, home.incarnation != incarnation else {
                return .invalid(right, in: self)
            }
            return channel(to: home, of: right)
        }
        return channel(to: home, of: right, in: publicID, insteadOf: former)
    }

    /// The channel to the new home of a port.
    /// - Parameter right: A right to the port, at this home or another.
    private func channel(
        to home: PortID, of right: WireRight, in publicID: PortID? = nil, insteadOf former: SendChannel? = nil
    ) -> SendChannel {
        let publicID = publicID ?? right.id
        var right = right
        right.id = home
        let made = SendChannel(right, of: publicID, in: self, sentCount: former?.sentCount ?? 0)
        let present: SendChannel? = state.withLock { state in
            if home != publicID { state.homes[publicID] = home }
            let present = state[home]
            if let present, present !== former { return present }
            if state.isEnding { return nil }
            state[home] = made
            return made
        }
        guard let present else {
            made.end(.closed)
            return made
        }
        // A connection that begins later tells its owner itself.
        if present === made, let owner = control.owner(of: home.incarnation) { made.note(owner: owner) }
        return present
    }

    /// Notes that the port of a channel has moved. The channel then leads to that to the new home.
    /// - Parameter directory: The path of the registry directory of the port.
    func move(_ channel: SendChannel, to home: PortID, in directory: String) {
        if hasEndedHere(home) { return channel.invalidate() }
        var right = channel.right
        (right.id, right.path) = (channel.publicID, directory)
        let next = self.channel(to: home, of: right)
        // The lender of a port ends with the news that its borrower has: the home that the registry still names is a former
        // one.
        if next.latest === channel { channel.invalidate() } else { channel.move(to: next) }
    }

    /// Whether a home is a port of this runtime that has ended: a port has its channel for its whole life.
    func hasEndedHere(_ home: PortID) -> Bool { home.incarnation == incarnation && state.withLock { $0[home] } == nil }

    /// Notes that a port has come from another process to this one.
    func moveHere(_ own: SendChannel) {
        let former = state.withLock { state in
            let former = state[state.home(of: own.publicID)]
            state.homes[own.publicID] = own.id == own.publicID ? nil : own.id
            return former
        }
        if let former, former !== own { former.move(to: own) }
    }

    /// Notes that a channel leads to the one to a home. Few ports move, so the channels do not have room for that.
    func addFollower(_ channel: SendChannel, of home: PortID) {
        followers.withLock { $0[home, default: []].append(Weak(channel)) }
    }

    /// The channels that lead to the one to a home, which leads on now, or is released.
    @discardableResult
    func takeFollowers(of home: PortID) -> [Weak<SendChannel>] {
        followers.withLockUnlessForked { $0.removeValue(forKey: home) ?? [] } ?? []
    }

    /// Makes no further channel that sends.
    func noteEnd() { state.withLock { $0.isEnding = true } }

    /// The port in texts.
    func identity(of port: PortID) -> PortIdentity { existing(port)?.latest.identity ?? PortIdentity(port) }

    func existing(_ port: PortID) -> SendChannel? { state.withLock { $0[port] } }

    /// The messages that the runtime has sent.
    var sentCount: Int { all.reduce(formerlySent.load(ordering: .acquiring)) { $0 + $1.ownSentCount } }

    /// Notes the release of a channel, which has sent this number of messages. The port may have another channel
    /// already.
    func remove(_ port: PortID, of publicID: PortID, sent: Int) {
        if sent > 0 { formerlySent.add(sent, ordering: .releasing) }
        let other = state.withLockUnlessForked { state in
            let other = state[port]
            if other == nil {
                state[port] = nil
                if state.homes[publicID] == port { state.homes[publicID] = nil }
            }
            return other
        }
        if other ?? nil == nil { takeFollowers(of: port) }
    }

    var count: Int { state.withLock { $0.entries.values.reduce(0) { $0 + $1.count } } }
    var all: [SendChannel] { state.withLock { $0.entries.values.flatMap { $0.values.compactMap(\.object) } } }

    /// Returns when no bell is being connected, after the end of the sockets. libzmq aborts the process at the end of
    /// its context if a bell was connected to a port whose socket is closed.
    func waitForBells() { for channel in all { channel.waitForBell() } }

    /// The channels with senders that wait. Without them, each question about a port would look at all channels.
    var waitedFor: [SendChannel] { waited.withLock { $0.values.compactMap(\.object) } }

    /// Notes whether senders wait. Called under the channel's lock, so that the last note is true.
    func note(_ channel: SendChannel, isWaitedFor: Bool) {
        waited.withLock { $0[ObjectIdentifier(channel)] = isWaitedFor ? Weak(channel) : nil }
    }

    /// The valid channels to ports of another process, also to those that have moved since.
    func channels(to peer: Incarnation) -> [SendChannel] {
        let channels = state.withLock { $0.entries[peer]?.values.compactMap(\.object) ?? [] }
        return channels.filter(\.isValid)
    }
}

extension SendChannel {
    /// The messages that this channel has sent, without those of a former channel to the port.
    var ownSentCount: Int { sentCount - sentBefore }

    /// The threads and tasks that wait for room or for a connection.
    var waiterCount: Int { state.withLock { $0.queue.waiters.count } }
}
