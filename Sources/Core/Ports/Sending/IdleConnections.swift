import RunLoopLocks
import RunLoops

/// The connections of a runtime to ports of other processes. The cache closes the least recently used ones.
///
/// A connection stays open while its port lives, even when no right is left: messages of a new connection could
/// overtake those of the old one. A connection is closed only when its port has answered a drain probe.
final class IdleConnections: Sendable {
    private struct Connection {
        let channel: SendChannel
        /// The count of sent messages in the last round.
        var sentCount: Int
        /// The last round that found the connection used.
        var lastUsed: Int
    }

    private struct Contents {
        var open: [PortID: Connection] = [:]
        /// Channels to live ports whose owners may still ask for the count of sent messages.
        var closed: [PortID: SendChannel] = [:]
        var round = 0
        var openedSinceRound = 0
        var isMakingRoom = false
    }

    private let housekeeping: Housekeeping
    private let state = Lock(Contents())

    init(_ housekeeping: Housekeeping) { self.housekeeping = housekeeping }

    /// The connections that stay open, about.
    static var most: Int { min(1024, Int(clamping: Descriptor.limit) / 8) }

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
        // The release of a channel takes other locks, so it comes after this one, here and below.
        withExtendedLifetime(former) {}
        // The channel may have become invalid, or its port may have moved, a moment before. A moved channel that stays would
        // keep those to all further homes.
        if !channel.isValid || channel.hasMoved.load(ordering: .acquiring) { remove(channel) }
        if isDue { closeUnusedSoon(leaving: most) }
    }

    /// The channel has closed its connection. Another thread may have opened a new one since.
    func closed(_ channel: SendChannel) {
        let former = state.withLock { state in
            guard !channel.isOpen, state.open[channel.id]?.channel === channel else { return nil as SendChannel? }
            state.open[channel.id] = nil
            return state.closed.updateValue(channel, forKey: channel.id)
        }
        withExtendedLifetime(former) {}
    }

    func remove(_ channel: SendChannel) {
        state.withLock { state in
            if state.open[channel.id]?.channel === channel { state.open[channel.id] = nil }
            if state.closed[channel.id] === channel { state.closed[channel.id] = nil }
        }
    }

    func close() { _ = state.withLock { exchange(&$0, with: Contents()) } }

    /// Closes idle connections when no descriptor was left for a new one, which would begin a round.
    func makeRoom() {
        let isUnderWay = state.withLock { exchange(&$0.isMakingRoom, with: true) }
        if !isUnderWay { closeUnusedSoon(leaving: 0) }
    }

    private func closeUnusedSoon(leaving most: Int) { try? housekeeping.perform { self.closeUnused(leaving: most) } }

    private func closeUnused(leaving most: Int) {
        let unused = state.withLock { state in
            state.isMakingRoom = false
            state.round += 1
            for (port, connection) in state.open {
                let sentCount = connection.channel.sentCount
                guard sentCount > connection.sentCount else { continue }
                state.open[port]?.sentCount = sentCount
                state.open[port]?.lastUsed = state.round
            }
            let surplus = max(0, state.open.count - most + most / 16)
            return state.open.values.filter { $0.lastUsed < state.round }.sorted { $0.lastUsed < $1.lastUsed }
                .prefix(surplus).map(\.channel)
        }
        SendChannel.closeLost(unused.filter { $0.closeIfIdle() })
    }
}
