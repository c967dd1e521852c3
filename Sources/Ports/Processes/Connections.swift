import RunLoops
import Synchronization

/// The connections of this process to ports of others. They are kept although nobody may have a right any more, as long
/// as their ports live: a server sees the same asker again, and what was sent through a new connection could overtake
/// what was sent through the old one. When there are many, the longest unused are closed, once their ports have taken
/// all that came through them.
final class Connections: Sendable {
    private struct Connection {
        let channel: SendChannel
        /// How many messages were sent to its port when it was last looked at.
        let sentCount: Int
        /// The last round in which it was found to have been used.
        let lastUsed: Int
    }

    private struct State {
        /// Only to live ports of live processes, as are the others.
        var open: [PortID: Connection] = [:]
        /// Their ports' owners may ask how many messages they have sent.
        var closed: [PortID: SendChannel] = [:]
        var round = 0
        var openedSinceRound = 0
        var isMakingRoom = false
    }

    private let state = Mutex(State())

    /// So many stay open, give or take a sixteenth.
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
        withExtendedLifetime(former) {}
        // It may have become invalid, and been let go of, a moment before.
        if !channel.isValid { letGo(channel) }
        if isDue { soonCloseUnused(leaving: most) }
    }

    /// No descriptor was left for a connection. Those that could not be closed before may be unused by now, and as none
    /// is opened, nobody else would ask.
    func makeRoom() {
        let isDue = state.withLock { state in
            defer { state.isMakingRoom = true }
            return !state.isMakingRoom
        }
        if isDue { soonCloseUnused(leaving: 0) }
    }

    private func soonCloseUnused(leaving most: Int) {
        guard let loop = try? PortProcess.current.housekeepingLoop() else { return }
        loop.perform { self.closeUnused(leaving: most) }
        // A block from the loop's own thread does not keep it from going to sleep.
        if loop.isCurrent { loop.wakeUp() }
    }

    /// Asks the ports of those that were not used for the longest time whether they have taken everything.
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
        for channel in unused { channel.askWhetherDrained() }
    }

    /// The channel has closed its connection; another thread may have made it a new one since.
    func closed(_ channel: SendChannel) {
        let former = state.withLock { state in
            guard !channel.hasSocket, state.open[channel.id]?.channel === channel else { return nil as Connection? }
            state.closed[channel.id] = channel
            return state.open.removeValue(forKey: channel.id)
        }
        withExtendedLifetime(former) {}
    }

    /// Its port is gone.
    func letGo(_ channel: SendChannel) {
        // Let go of after the lock: the last reference to a channel takes others.
        let released = state.withLock { state in
            (
                state.open[channel.id]?.channel === channel ? state.open.removeValue(forKey: channel.id) : nil,
                state.closed[channel.id] === channel ? state.closed.removeValue(forKey: channel.id) : nil
            )
        }
        withExtendedLifetime(released) {}
    }
}
