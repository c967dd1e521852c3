import RunLoops

/// The connections of a runtime to ports of other processes, and which of them to close.
///
/// A connection stays open while its port lives, even when no right is left: a server sees the same asker again, and
/// messages of a new connection could overtake those of the old one. When there are many, the ones that were not used
/// for the longest time are closed, once their ports have taken everything.
final class ConnectionCache: Sendable {
    private struct Connection {
        let channel: SendChannel
        /// How many messages had been sent at the last look.
        let sentCount: Int
        /// The last round in which it was found to have been used.
        let lastUsed: Int
    }

    private struct State {
        /// Only to live ports, as are the closed ones.
        var open: [PortID: Connection] = [:]
        /// The ports' owners may still ask how many messages these have sent.
        var closed: [PortID: SendChannel] = [:]
        var round = 0
        var openedSinceRound = 0
        var isMakingRoom = false
    }

    private let housekeeping: Housekeeping
    private let state = Lock(State())

    init(_ housekeeping: Housekeeping) { self.housekeeping = housekeeping }

    /// About so many stay open.
    static var most: Int { min(1024, Int(clamping: Descriptor.limit) / 8) }

    /// The channel has a connection now.
    func opened(_ channel: SendChannel) {
        let sentCount = channel.sentCount
        let most = Self.most
        let (former, isDue) = state.withLock { state in
            let made = Connection(channel: channel, sentCount: sentCount, lastUsed: state.round)
            let former = (
                state.open.updateValue(made, forKey: channel.id), state.closed.removeValue(forKey: channel.id)
            )
            state.openedSinceRound += 1
            let isDue = state.open.count > most && state.openedSinceRound > most / 16
            if isDue { state.openedSinceRound = 0 }
            return (former, isDue)
        }
        // The release of a channel takes other locks, so it comes after this one. So below.
        withExtendedLifetime(former) {}
        // The channel may have become invalid, and been removed, a moment before.
        if !channel.isValid { remove(channel) }
        if isDue { closeUnusedSoon(leaving: most) }
    }

    /// No descriptor was left for a connection. Connections that were in use before may be idle now; while none can be
    /// opened, nothing else would close them.
    func makeRoom() {
        let isDue = state.withLock { state in
            defer { state.isMakingRoom = true }
            return !state.isMakingRoom
        }
        if isDue { closeUnusedSoon(leaving: 0) }
    }

    private func closeUnusedSoon(leaving most: Int) {
        try? housekeeping.perform { self.closeUnused(leaving: most) }
    }

    private func closeUnused(leaving most: Int) {
        let unused = state.withLock { state in
            state.isMakingRoom = false
            state.round += 1
            for (port, connection) in state.open {
                let sentCount = connection.channel.sentCount
                if sentCount > connection.sentCount {
                    state.open[port] = Connection(
                        channel: connection.channel, sentCount: sentCount, lastUsed: state.round)
                }
            }
            let surplus = max(0, state.open.count - most + most / 16)
            return state.open.values.filter { $0.lastUsed < state.round }.sorted { $0.lastUsed < $1.lastUsed }
                .prefix(surplus).map(\.channel)
        }
        for channel in unused { channel.closeIfIdle() }
    }

    /// The channel has closed its connection. Another thread may have made a new one since.
    func closed(_ channel: SendChannel) {
        let former = state.withLock { state in
            guard !channel.hasSocket, state.open[channel.id]?.channel === channel else {
                return nil as (Connection?, SendChannel?)?
            }
            return (state.open.removeValue(forKey: channel.id), state.closed.updateValue(channel, forKey: channel.id))
        }
        withExtendedLifetime(former) {}
    }

    /// The channel's port is gone.
    func remove(_ channel: SendChannel) {
        let released = state.withLock { state in
            (
                state.open[channel.id]?.channel === channel ? state.open.removeValue(forKey: channel.id) : nil,
                state.closed[channel.id] === channel ? state.closed.removeValue(forKey: channel.id) : nil
            )
        }
        withExtendedLifetime(released) {}
    }

    /// The runtime ends.
    func close() {
        let released = state.withLock { state in
            defer { state = State() }
            return state
        }
        withExtendedLifetime(released) {}
    }
}
