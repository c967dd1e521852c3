import RunLoopLocks
import Synchronization

/// The channels of a runtime, at most one to each port, and what they share. A channel lives as long as there are
/// rights to its port.
final class ChannelTable: Sendable {
    /// No strong reference to a channel ends under the lock, because the release of a channel takes it.
    private struct State {
        /// By process, and by the port's number.
        var entries: [Incarnation: [UInt64: Weak<SendChannel>]] = [:]

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

    init(_ control: ControlConnectionTable) {
        self.control = control
        connections = IdleConnections(control.housekeeping)
    }

    var incarnation: Incarnation { control.incarnation }
    var housekeeping: Housekeeping { control.housekeeping }
    var sockets: SocketFactory { control.sockets }

    /// The channel to a new port of this runtime.
    func addOwnChannel(_ right: WireRight, _ queue: LocalQueue) -> SendChannel {
        let channel = SendChannel(right, in: self, localQueue: queue)
        state.withLock { $0[right.id] = channel }
        return channel
    }

    /// The channel to a port: the existing one, or a new one. Callers that have just found the port in a live process's
    /// entry replace an invalid channel to that process.
    func channel(to right: WireRight, replacesInvalid: Bool = false) -> SendChannel {
        // At the fork, another thread may have held the lock.
        if Fork.isChild { return .invalid(right, in: self) }
        // Existing channels are looked up first, to avoid the cost of a new channel. Each request brings its asker's
        // right.
        let former = existing(right.id)
        let isOwn = right.id.incarnation == incarnation
        if let former, !replacesInvalid || isOwn || former.isValid { return former }
        // A port of this runtime without a channel is gone. Without a path, nobody can find the owner.
        if isOwn || right.path.isEmpty { return .invalid(right, in: self) }
        let made = SendChannel(right, in: self, sentCount: former?.sentCount ?? 0)
        let present = state.withLock { state in
            let present = state[right.id]
            if let present, present !== former { return present }
            state[right.id] = made
            return made
        }
        // A connection that begins later tells its owner itself.
        if present === made, let owner = control.owner(of: right.id.incarnation) { made.note(owner: owner) }
        return present
    }

    /// The port in texts.
    func identity(of port: PortID) -> PortIdentity { existing(port)?.identity ?? PortIdentity(port) }

    func existing(_ port: PortID) -> SendChannel? { state.withLock { $0[port] } }

    /// The messages that the runtime has sent.
    var sentCount: Int { all.reduce(formerlySent.load(ordering: .acquiring)) { $0 + $1.ownSentCount } }

    /// Notes the release of a channel, which has sent this number of messages. The port may have another channel
    /// already.
    func remove(_ port: PortID, sent: Int) {
        if sent > 0 { formerlySent.add(sent, ordering: .releasing) }
        _ = state.withLockUnlessForked { state in
            let other = state[port]
            if other == nil { state[port] = nil }
            return other
        }
    }

    var count: Int { state.withLock { $0.entries.values.reduce(0) { $0 + $1.count } } }
    var all: [SendChannel] { state.withLock { $0.entries.values.flatMap { $0.values.compactMap(\.object) } } }

    /// Returns when no bell is being connected, after the end of the sockets. libzmq aborts the process at the end of
    /// its context if a bell was connected to a port whose socket is closed.
    func waitForBells() { for channel in all { channel.waitForBell() } }

    /// The valid channels to ports of another process.
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
