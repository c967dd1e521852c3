import ZeroMQ

// Closing an idle connection. Messages on their way would be lost with the socket, or overtaken by messages of the next
// one. So the port is first asked whether it has taken everything.

extension SendChannel {
    var hasSocket: Bool { state.withLock { $0.socket != nil || $0.lane.isOpen } }
    var hasLane: Bool { state.withLock { $0.lane.isOpen } }

    /// Closes the connection, now or when the answer to a drain probe comes.
    ///
    /// - Returns: Whether there is no room or no answer: then the connection may be lost.
    @discardableResult
    func closeIfIdle() -> Bool {
        if closesIdleLane() { return false }
        var (isProbed, mayBeLost) = (false, false)
        closeSocket { state in
            switch state.queue.closeIfIdle() {
            case .nothing: return false
            case .close: return true
            case .wait:
                (isProbed, mayBeLost) = (true, true)
                return false
            case .probe:
                let number = UInt64.random(in: 0 ... .max)
                mayBeLost = true
                if var frame = try? ZeroMQFrame(drainProbe: number, origin: state.queue.origin),
                    (try? state.socket?.sendNow(&frame)) == true
                {
                    state.queue.noteProbe(number)
                    (isProbed, mayBeLost) = (true, false)
                }
                return false
            }
        }
        if isProbed { channels.control.send(.probed(id.number), to: id.incarnation) }
        return mayBeLost
    }

    /// Closes the lane, if everything was taken from it.
    /// - Returns: False without a lane.
    private func closesIdleLane() -> Bool {
        let isClosed: Bool? = state.withLock { state in
            state.lane.isOpen ? state.queue.waiters.isEmpty && closeDrainedLane(&state) : nil
        }
        if isClosed == true {
            log.debug("closed the idle lane to \(identity)")
            channels.connections.closed(self)
        }
        return isClosed != nil
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
        // An older probe's answer does not cover the last messages.
        closeSocket { $0.queue.drained(number) }
        if isFinishing, !hasSocket { tellFinished() }
    }

    private func closeSocket(if decide: (inout ChannelState) -> Bool) {
        let isClosed = state.withLock { state in
            guard decide(&state) else { return false }
            state.socket = nil
            return true
        }
        guard isClosed else { return }
        log.debug("closed the idle socket to \(identity)")
        channels.connections.closed(self)
    }
}

extension ZeroMQFrame {
    fileprivate init(drainProbe number: UInt64, origin: UInt32) throws(ZeroMQError) {
        let header = WireHeader(kind: .drainProbe, request: number, origin: origin)
        try self.init(count: header.componentsOffset)
        withUnsafeMutableBytes { header.write(to: $0) }
    }
}
