import RunLoops

/// The channels of a runtime, at most one to each port. A channel lives as long as there are rights to its port.
final class ChannelTable: Sendable {
    /// An entry of the table. Its channel may be released at any time, and the release takes the table's lock: so a strong
    /// reference must never end under the lock, only leave with the result.
    ///
    /// A class, because a dictionary whose values hold weak references corrupts them (Swift 6.3, debug).
    private final class Entry: Sendable {
        weak let channel: SendChannel?
        let identity: ObjectIdentifier

        init(_ channel: SendChannel) {
            self.channel = channel
            identity = ObjectIdentifier(channel)
        }
    }

    private struct State {
        /// By process, and by the port's number.
        var entries: [Incarnation: [UInt64: Entry]] = [:]

        subscript(port: PortID) -> Entry? {
            get { entries[port.incarnation]?[port.number] }
            set {
                entries[port.incarnation, default: [:]][port.number] = newValue
                if newValue == nil, entries[port.incarnation]?.isEmpty == true { entries[port.incarnation] = nil }
            }
        }
    }

    let context: SendContext
    private let state = Lock(State())

    init(_ context: SendContext) { self.context = context }

    /// The channel to a new port of this runtime.
    func addOwnChannel(_ right: WireRight) -> SendChannel {
        let channel = SendChannel(right, in: self, isLocal: true)
        state.withLock { $0[right.id] = Entry(channel) }
        return channel
    }

    /// The channel to a port. It is made if there is none.
    ///
    /// - Parameter replacesInvalid: Whether an invalid channel to another process gets a successor: for callers that have
    ///   just seen that the port has an owner.
    func channel(to right: WireRight, replacesInvalid: Bool = false) -> SendChannel {
        // The lock may have been another thread's at the fork.
        if Fork.isChild { return .invalid(right, in: self) }
        // Each request brings its asker's right, and all but the first find the channel here.
        let former = existing(right.id)
        let isOwn = right.id.incarnation == context.incarnation
        if let former, !replacesInvalid || isOwn || former.isValid { return former }
        // A port of this runtime that has no channel is gone; and without a path, nobody can find the port's owner.
        if isOwn || right.path.isEmpty { return .invalid(right, in: self) }
        let made = SendChannel(right, in: self, sentCount: former?.sentCount ?? 0)
        return state.withLock { state in
            if let channel = state[right.id]?.channel, channel !== former { return channel }
            state[right.id] = Entry(made)
            return made
        }
    }

    func existing(_ port: PortID) -> SendChannel? { state.withLock { $0[port]?.channel } }

    /// The channel is being released.
    func remove(_ port: PortID, _ identity: ObjectIdentifier) {
        state.withLockUnlessForked { state in
            if state[port]?.identity == identity { state[port] = nil }
        }
    }

    var count: Int { state.withLock { $0.entries.values.reduce(0) { $0 + $1.count } } }

    var all: [SendChannel] { state.withLock { $0.entries.values.flatMap { $0.values.compactMap(\.channel) } } }

    /// The valid channels to ports of another process.
    func channels(to peer: Incarnation) -> [SendChannel] {
        let channels = state.withLock { $0.entries[peer]?.values.compactMap(\.channel) ?? [] }
        return channels.filter(\.isValid)
    }

    /// The valid channels whose rights say that the process is at the address.
    func channels(to address: ControlAddress) -> [SendChannel] {
        channels(to: address.incarnation).filter { $0.path == address.directory }
    }
}
