import RunLoopLocks
import RunLoops
import ZeroMQ

// Closing idle connections: which of them and when, and how. Messages that are still on their way would be lost with the socket, or overtaken by those
// of the next one: so the port is asked first whether it has taken everything.

extension ConnectionCache {
    /// The connections that stay open, about.
    static var most: Int { min(1024, Int(clamping: Descriptor.limit) / 8) }

    /// Closes idle connections when no descriptor was left for a new one, which would begin a round.
    func makeRoom() {
        let isUnderWay = state.withLock { exchange(&$0.isMakingRoom, with: true) }
        if !isUnderWay { closeUnusedSoon(leaving: 0) }
    }

    func closeUnusedSoon(leaving most: Int) { try? housekeeping.perform { self.closeUnused(leaving: most) } }

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
}

extension SendChannel {
    var hasSocket: Bool { state.withLock { $0.socket != nil } }

    /// Closes the connection, now or when the answer to a drain probe comes.
    func closeIfIdle() {
        closeSocket { state in
            switch state.queue.closeIfIdle() {
            case .nothing: return false
            case .close: return true
            case .probe:
                let number = UInt64.random(in: 0 ... .max)
                // Without room, the next round tries again.
                if var frame = try? Frame(drainProbe: number, origin: state.queue.origin),
                    (try? state.socket?.sendNow(&frame)) == true
                {
                    state.queue.noteProbe(number)
                }
                return false
            }
        }
    }

    /// The port has answered a drain probe: everything before it was taken.
    func drained(_ number: UInt64) { closeSocket { $0.queue.drained(number) } }

    private func closeSocket(if decide: (inout ChannelState) -> Bool) {
        let isClosed = state.withLock { state in
            guard decide(&state) else { return false }
            state.socket = nil
            return true
        }
        if isClosed { context.connections.closed(self) }
    }
}

extension Frame {
    fileprivate init(drainProbe number: UInt64, origin: UInt32) throws(ZeroMQError) {
        let header = WireHeader(kind: .drainProbe, request: number, origin: origin)
        try self.init(count: header.componentsOffset)
        withUnsafeMutableBytes { header.write(to: $0) }
    }
}
