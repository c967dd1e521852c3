import Synchronization

// The end of a channel, by the end of its port or of the runtime.

extension SendChannel {
    var isValid: Bool {
        state.withLockUnlessForked { $0.queue.lifecycle != .invalid && $0.queue.lifecycle != .closed } ?? false
    }

    var isWatched: Bool { state.withLock { $0.queue.isWatched } }

    /// Calls the handler when the port becomes invalid, or at once.
    func onInvalidation(_ handler: @escaping @Sendable () -> Void) {
        guard !Fork.isChild else { return }
        invalidated.whenSet { handler() }
        if invalidated.value == nil { latest.watch() }
    }

    /// Asks the owner to report the port's end, now or when there is a connection. Never waits.
    func watch() {
        guard !isLocal else { return }
        state.withLock { $0.queue.isWatched = true }
        channels.control.watch(id, at: controlAddress)
    }

    /// Finishes the channel, because the port is about to end. Nothing more is sent, and the owner learns when
    /// everything has arrived. Called on the housekeeping thread.
    func finish() {
        let (isFirst, waiters) = state.withLock { $0.finish(probingUntil: .now + Self.probingTime) }
        for waiter in waiters { waiter.wake() }
        reportFinished(probes: isFirst)
    }

    /// Tells the owner when it has taken everything.
    /// - Parameter probes: Whether nobody probes yet.
    func reportFinished(probes: Bool) {
        // The owner has the messages of a ring already.
        if !isOpen || hasRing { tellFinished() } else if probes { probe() }
    }

    /// The time for probing. An owner answers much sooner, and a malicious one must not get more time.
    static let probingTime = Duration.seconds(2)

    /// Whether the owner waits for ``tellFinished()``.
    var isFinishing: Bool { state.withLock { $0.queue.carriesNoMore } }

    /// Sends drain probes until one is answered. The socket may have no room for a probe, and an answer may be lost
    /// with a control connection.
    private func probe() {
        let goesOn = state.withLock { state in
            if state.mayProbe(), state.zeroMQ.isOpen { return true }
            // The channel may get another socket, and probes again then.
            state.endProbing()
            return false
        }
        guard goesOn else { return }
        closeIfIdle()
        channels.control.housekeeping.perform(after: .milliseconds(20)) { [weak self] in self?.probe() }
    }

    func tellFinished() { channels.control.send(.finished(id.number), to: id.incarnation) }

    /// The port is gone.
    func invalidate() {
        // Probe channels name no real port.
        if isValid, id.number < .max / 2 { log.debug("\(identity) has ended") }
        end(.invalid)
        channels.connections.remove(self)
        channels.control.events?.channelBecameInvalid(id)
        invalidated.set(())
    }

    /// Ends sending with the runtime. Sent messages are still on their way.
    /// - Returns: The path of the other process's socket, if something was sent to it.
    func stopSending() -> String? {
        let path = usedPath
        end(.closed)
        // Reported now, because the owner cannot ask for the count later.
        if !isLocal, sentCount > 0 {
            channels.control.send(.sent(id.number, count: UInt64(sentCount)), to: id.incarnation)
        }
        return path
    }

    /// Closes the socket after ``stopSending()``. libzmq may use the milliseconds to flush.
    func close(linger milliseconds: Int32) {
        state.withLock { $0.close(linger: milliseconds) }
        invalidated.dropHandlers()
    }

    /// The probed ports count down from the largest number; ports count up from one.
    private static let lastProbe = Atomic<UInt64>(0)

    /// Watches for the end of a port that does not exist. The owner's library reports that end on its own thread, after
    /// all earlier packets, as long as the returned channel is retained.
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
            return state.end(end)
        }
        for waiter in waiters { waiter.wake() }
    }
}
