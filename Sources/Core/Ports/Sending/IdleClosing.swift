// Closing an idle connection. Messages on their way would be lost with the socket, or overtaken by messages of the next
// one. So the port is first asked whether it has taken everything.

extension SendChannel {
    /// Whether there is a way to the port of another process.
    var isOpen: Bool { state.withLock { $0.isOpen } }
    var hasRing: Bool { state.withLock { $0.ring.isOpen } }

    /// Closes the connection, now or when the answer to a drain probe comes.
    ///
    /// - Returns: Whether there is no room or no answer: then the connection may be lost.
    @discardableResult
    func closeIfIdle() -> Bool {
        let step = state.withLock { state in
            let step = state.closeIfIdle()
            // Under the lock, and so before the next question.
            if step == .closedRing { tellRingClosed(&state) }
            if step == .closed { tellZeroMQ(isOpen: false) }
            return step
        }
        switch step {
        case .nothing: return false
        case .closed, .closedRing:
            noteClosed()
            return false
        case .probed: tellProbed()
        case .waits(let isProbed): if isProbed { tellProbed() }
        }
        return step != .probed
    }

    private func tellProbed() { channels.control.send(.probed(id.number), to: id.incarnation) }

    func tellRingClosed(_ state: inout ChannelState) {
        channels.control.send(.ringClosed(id.number, question: state.ring.question), to: id.incarnation)
    }

    private func noteClosed() {
        closeUnusedDescriptorSocket()
        log.debug("closed the idle connection to \(identity)")
        channels.connections.closed(self)
    }

    /// Closes the connections that are lost. The others are closed in a later round.
    static func closeLost(_ channels: [SendChannel]) {
        // All are noted as missed before the first check, so that one scan serves all.
        for channel in channels.filter({ $0.noteMissed() != nil }) where channel.dropLostConnection() {
            channel.channels.connections.closed(channel)
        }
    }

    /// The port has answered a drain probe: everything before it was taken.
    func drained(_ number: UInt64) {
        let isClosed = state.withLock { state in
            let isClosed = state.drained(number)
            if isClosed { tellZeroMQ(isOpen: false) }
            return isClosed
        }
        if isClosed { noteClosed() }
        if isFinishing, !isOpen { tellFinished() }
    }
}
