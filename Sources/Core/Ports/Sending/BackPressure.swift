import RunLoops

// Back-pressure: the senders that wait while a port's queue is full, or while there is no way to it. The first of them
// looks for room, and the others follow in their order.

extension SendChannel {
    /// The deadlines of a send.
    struct Deadlines {
        let send: MonotonicInstant
        /// The first use of a right has to connect, whatever the deadline. A live owner needs far less than a second.
        let connect: MonotonicInstant
        /// The number of lost connections before the send. Another loss ends the send.
        fileprivate let losses: Int

        /// The end of a wait, at which the sender gives up. A wait with another end would not be the last one.
        func limit(isConnected: Bool) -> MonotonicInstant { isConnected ? send : connect }
    }

    /// - Parameter former: Those of the same send, which have passed.
    func deadlines(_ deadline: MonotonicInstant, after former: Deadlines? = nil) -> Deadlines {
        Deadlines(
            send: deadline, connect: max(deadline, .now + .seconds(1)),
            losses: former?.losses ?? state.withLock { $0.zeroMQ.losses })
    }

    /// The period in which the first waiter for room checks the connection, because libzmq does not report its loss.
    static let lookPeriod = Duration.seconds(1)

    /// A waiter's next step.
    enum NextStep {
        case done
        /// The port has moved: the message goes to the next channel.
        case moved
        case connect
        /// Wait for a wake-up, and for the socket's descriptor.
        case wait(Int32?, until: MonotonicInstant)
    }

    // MARK: Waiting

    /// - Returns: False when the port has moved.
    func waitToSend(
        _ message: inout OutgoingMessage, before deadline: MonotonicInstant
    ) throws(PortError) -> Bool {
        if isLocal, localPort?.isServedOnlyHere == true { throw .ownQueueFull(port: identity) }
        let waiter = ThreadWaiter()
        join(waiter)
        defer { leave(waiter) }
        let deadlines = deadlines(deadline)
        while true {
            switch try nextStep(&message, waiter, deadlines) {
            case .done: return true
            case .moved: return false
            case .connect: try connect(before: deadlines.connect)
            case .wait(let descriptor, let limit):
                if !waiter.wait(for: descriptor, until: limit) { try prepareRetry(of: waiter, deadlines) }
            }
        }
    }

    /// Throws when a waiter has no time left, or its connection is lost. Otherwise closes a socket that was never
    /// accepted.
    func prepareRetry(of waiter: some Waiter, _ deadlines: Deadlines) throws(PortError) {
        let pause = state.withLock { $0.pause(of: waiter, until: deadlines.limit) }
        guard pause.isConnected else {
            if pause.isOver { throw .cannotConnect(port: identity, reason: "its owner accepts no connection") }
            return
        }
        if pause.looks { _ = noAnswer(.sendTimedOut(port: identity)) }
        if pause.looks, dropLostConnection() { throw .connectionLost(port: identity) }
        if pause.isOver { throw .sendTimedOut(port: identity) }
    }

    /// Returns the error of a send or a request that has ended without success. The owner may be dead, and is checked.
    func noAnswer(_ error: PortError) -> PortError {
        if !isLocal { channels.control.noteSilence(of: id.incarnation) }
        return error
    }

    func nextStep(
        _ message: inout OutgoingMessage, _ waiter: some Waiter, _ deadlines: Deadlines
    ) throws(PortError) -> NextStep {
        try Fork.check()
        return try state.withLock { (state) throws(PortError) -> NextStep in
            try state.queue.check(.becameInvalid(port: identity))
            if deadlines.losses != state.zeroMQ.losses { throw .connectionLost(port: identity) }
            if state.queue.lifecycle == .moved { return .moved }
            guard state.queue.lifecycle != .moving, state.queue.isFirst(waiter) else {
                return .wait(nil, until: deadlines.limit(isConnected: state.isConnected))
            }
            state.descriptors.obstacle = .none
            localQueue?.askForRoom()
            state.ring.askForRoom()
            if try trySend(&message, &state) { return .done }
            let limit = deadlines.limit(isConnected: state.isConnected)
            if let step = try stepForDescriptors(waiter, state, until: limit) { return step }
            if waiter is ThreadWaiter, giveUpAwaitingRing(&state) { return .connect }
            if isLocal || state.ring.isAsked { return .wait(nil, until: limit) }
            if state.ring.isOpen {
                let period = state.ring.waitsForKernel ? .milliseconds(50) : Self.lookPeriod
                return .wait(state.ring.roomDescriptor, until: min(limit, .now + period))
            }
            let isConnecting = state.queue.lifecycle == .connecting
            let retry = min(limit, isConnecting ? state.zeroMQ.acceptDeadline : .now + Self.lookPeriod)
            // The port wakes the waiter, and the socket's descriptor does not.
            if state.credit.isLacking { return .wait(nil, until: retry) }
            guard let descriptor = try state.zeroMQ.watchedDescriptor() else { return .connect }
            return .wait(descriptor, until: retry)
        }
    }

    // MARK: Waiters

    func join(_ waiter: some Waiter) {
        state.withLock { state in
            if state.queue.waiters.isEmpty { channels.note(self, isWaitedFor: true) }
            state.queue.add(waiter)
            localQueue?.hold(true)
        }
    }

    func leave(_ waiter: some Waiter) {
        let next = state.withLock { state -> (any Waiter)? in
            let next = state.queue.remove(waiter)
            if state.queue.waiters.isEmpty { channels.note(self, isWaitedFor: false) }
            guard let localQueue else { return next }
            localQueue.hold(!state.queue.waiters.isEmpty)
            guard next != nil else { return nil }
            // Without room, the waiter would only sleep again. The port wakes it when it has taken messages.
            localQueue.askForRoom()
            if localQueue.hasRoom { return next }
            state.queue.isFull = true
            return nil
        }
        next?.wake()
    }

    /// The port has taken messages, and senders wait for room.
    func roomWasMade() { state.withLock { $0.queue.waiters.first }?.wake() }

    /// The port has returned credit.
    func returnCredit(_ bytes: Int) {
        state.withLock { $0.credit.giveBack(bytes) ? $0.queue.waiters.first : nil }?.wake()
    }
}
