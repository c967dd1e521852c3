import Synchronization

// The end of a channel: that of its port, or of the runtime.

extension SendChannel {
    var isValid: Bool {
        state.withLockUnlessForked { $0.queue.lifecycle != .invalid && $0.queue.lifecycle != .closed } ?? false
    }

    var isWatched: Bool { state.withLock { $0.queue.isWatched } }

    /// Calls the handler when the port becomes invalid, or at once.
    func onInvalidation(_ handler: @escaping @Sendable () -> Void) {
        guard !Fork.isChild else { return }
        invalidated.whenSet { handler() }
        if invalidated.value == nil { watch() }
    }

    /// Asks the owner to report the port's end, now or when there is a connection. Never waits.
    func watch() {
        guard !isLocal else { return }
        state.withLock { $0.queue.isWatched = true }
        channels.control.watch(id, at: controlAddress)
    }

    /// The port is about to end: nothing more is sent, and its owner learns when everything has arrived. Called on the
    /// housekeeping thread.
    func finish() {
        let (isFirst, waiters) = state.withLock { state in
            // One that has sent nothing.
            if state.queue.lifecycle == .connecting { state.socket = nil }
            return state.queue.finish(probingUntil: .now + Self.probingTime)
        }
        for waiter in waiters { waiter.wake() }
        if !hasSocket { tellFinished() } else if isFirst { probe() }
    }

    /// An owner that is honest has its answer much sooner, and another has no more of it.
    private static let probingTime = Duration.seconds(2)

    var isFinishing: Bool { state.withLock { $0.queue.lifecycle == .finishing } }

    /// The socket may have no room for the probe just now, and its answer may be lost with a control connection.
    private func probe() {
        guard state.withLock({ $0.queue.mayProbe() && $0.socket != nil }) else { return }
        closeIfIdle()
        channels.control.housekeeping.perform(after: .milliseconds(20)) { [weak self] in self?.probe() }
    }

    func tellFinished() { channels.control.send(.finished(id.number), to: id.incarnation) }

    /// The port is gone.
    func invalidate() {
        // A probe is of no port.
        if isValid, id.number < .max / 2 { log.debug("\(identity) has ended") }
        end(.invalid)
        channels.connections.remove(self)
        channels.control.events?.channelBecameInvalid(id)
        invalidated.set(())
    }

    /// Ends sending with the runtime. What was sent is still on its way.
    /// - Returns: The path of the other process's socket, if something was sent to it.
    func stopSending() -> String? {
        let path = usedPath
        end(.closed)
        // The owner cannot ask for the count any more.
        if !isLocal, sentCount > 0 {
            channels.control.send(.sent(id.number, count: UInt64(sentCount)), to: id.incarnation)
        }
        return path
    }

    /// Closes the socket after ``stopSending()``. libzmq may use the milliseconds to flush.
    func close(linger milliseconds: Int32) {
        state.withLock { state in
            if !isLocal { try? state.socket?.set(.linger(milliseconds)) }
            state.socket = nil
        }
        invalidated.dropHandlers()
    }

    /// The probed ports count down from the largest number; ports count up from one.
    private static let lastProbe = Atomic<UInt64>(0)

    /// Watches for the end of a port that does not exist. The owner's library reports it on its own thread, after all
    /// earlier packets, as long as the returned channel is kept.
    func probeOwner() -> SendChannel {
        var probed = right
        let number = UInt64.max - Self.lastProbe.add(1, ordering: .relaxed).newValue
        probed.id = PortID(incarnation: id.incarnation, number: number)
        let probe = channels.channel(to: probed)
        probe.onInvalidation {}
        return probe
    }

    /// Ends sending, and fails all waiters.
    func end(_ end: SendState.Lifecycle) {
        let waiters = state.withLock { state in
            localQueue?.refuse()
            // The bell ends with the port's own socket.
            if end != .closed, !isLocal { state.socket = nil }
            return state.queue.end(end)
        }
        for waiter in waiters { waiter.wake() }
    }
}
