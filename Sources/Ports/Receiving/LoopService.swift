import CRunLoopShims
import RunLoops
import ZeroMQ

// Loops that handle a port's messages.

extension Receiver {
    /// Schedules the port in a mode of a loop, which handles its messages. The loop retains the face.
    func schedule(
        in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode, keeping face: (any AnyObject & Sendable)? = nil
    ) throws(PortError) {
        try Fork.check()
        try scheduling.withLock { _ throws(PortError) in
            let source = try makeSource(keeping: face)
            try runLoop { () throws(RunLoopError) in try loop.add(source, forMode: mode) }
            let place = Place(loop: loop, mode: mode)
            let bells = state.withLock { state in
                state.removePlace(loop, mode)
                state.places.append(place)
                return state.bellSource
            }
            if let bells { place.add(bells) }
        }
        tellOthersIfAny()
    }

    private func makeSource(keeping face: (any AnyObject & Sendable)?) throws(PortError) -> ThreadRunLoop.Source1 {
        try state.withLock { (state) throws(PortError) in
            guard state.lifecycle.isOpen, let descriptor = try state.socket?.watchedDescriptor() else {
                throw .isInvalid(port: identity)
            }
            if let source = state.source { return source }
            // No duplicate is needed, because the port removes the source before it closes the socket.
            let source = ThreadRunLoop.Source1(
                descriptor: descriptor, label: { [channel] in channel.identity.description }, duplicates: false,
                hasWork: { [weak self] in self?.hasWork ?? true }
            ) { [self, face] turn in
                withExtendedLifetime(face) { serve(&turn, turn.source, turn.readiness.isEmpty ? [] : .socket) }
            }
            state.source = source
            return source
        }
    }

    /// Whether there is work for a loop that polls.
    private var hasWork: Bool {
        channel.localQueue?.hasMessages != false
            || hasLanes.load(ordering: .relaxed) && state.withLock { $0.arrivals.hasMessages }
    }

    /// A mode of a loop in which the port is scheduled.
    struct Place {
        weak var loop: ThreadRunLoop?
        let mode: ThreadRunLoop.Mode

        /// Adds the source of the port's lanes.
        func add(_ bells: ThreadRunLoop.Source1) { _ = try? loop?.add(bells, forMode: mode) }
    }

    /// Lets the loops, threads and queues that take from the port hear the bells of its lanes, too. Called with the first
    /// lane, before anybody can ring.
    func beginHearing(_ bells: BellSet) {
        scheduling.withLock { _ in
            // Also invalidated before the bells are closed.
            let source = ThreadRunLoop.Source1(
                descriptor: bells.descriptor, label: { [channel] in "the lanes of \(channel.identity)" },
                duplicates: false
            ) { [weak self] turn in
                guard let self, let source = state.withLock({ $0.source }) else { return false }
                return serve(&turn, source, turn.readiness.isEmpty ? [] : .bells)
            }
            let places = state.withLock { state -> [Place] in
                guard state.lifecycle.isOpen else { return [] }
                state.bellSource = source
                return state.places
            }
            for place in places { place.add(source) }
        }
    }

    func remove(from loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) {
        // A forked child shares the wait sets with its parent.
        let sources = state.withLockUnlessForked { state in
            state.removePlace(loop, mode)
            return [state.source, state.bellSource]
        }
        for case let source? in sources ?? [] { loop.remove(source, forMode: mode) }
    }

    func isScheduled(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) -> Bool {
        guard let source = state.withLockUnlessForked({ $0.source }) ?? nil else { return false }
        return loop.contains(source, forMode: mode)
    }

    /// Handles messages in a loop's turn.
    /// - Parameters:
    ///   - source: The port's source. The turn may be that of its lanes' source.
    ///   - reports: The descriptors that began the turn.
    private func serve(
        _ turn: inout ThreadRunLoop.Turn, _ source: ThreadRunLoop.Source1, _ reports: Arrivals.Reports
    ) -> Bool {
        guard (try? beginTurn()) != nil else {
            source.clear()
            return false
        }
        defer { endTurn() }
        var handled = false
        var used = LocalQueue.Batch()
        defer { channel.localQueue?.reuse(&used) }
        var handlers = Handlers(generation: -1)
        // Whether the loop has to come back to this port. Cleared when the turn finds nothing more.
        var mustRaise = false
        var reports = reports
        var frame: ZeroMQFrame?
        var sender: MessageSender?
        while turn.next() {
            if let message = takeAtHand(&handlers, &frame, &sender, &reports) {
                inHand.note(message)
                handlers.handle(message, &used)
                handled = true
                continue
            }
            if let frame = frame.take() {
                guard let frame = checked(frame, sender) else { continue }
                inHand.show(frame) { handlers.handle(frame) }
                handled = true
                continue
            }
            if source.poll(during: turn) {
                if leavesListOpen(&reports) {
                    mustRaise = false
                    break
                }
                source.stopPolling(during: turn)
            }
            guard var delivery = take(source: source, &reports) else {
                mustRaise = false
                break
            }
            if delivery.isFirst {
                mustRaise = source.raiseIfNested(during: turn)
                wakeWaiters()
            }
            delivery.handle(&used, inHand)
            handled = true
        }
        source.settleRaise(during: turn)
        // A check costs less than a turn that finds nothing, and leaves the loop's next pass to other events.
        if mustRaise, mayHaveMore() { source.raise(during: turn) }
        return handled
    }

    /// Whether nothing waits, and only the loop whose turn it is takes messages: while it polls, the list and the lanes
    /// can stay open.
    private func leavesListOpen(_ reports: inout Arrivals.Reports) -> Bool {
        let leavesOpen = state.withLock { state in
            guard state.lifecycle.isOpen, state.mayHaveMore, state.waiters.isEmpty,
                state.arrivals.hasNothing(state.socket, &reports)
            else { return false }
            // The taker of the next message tells the others, because the open list does not.
            state.mayHaveMore = false
            return true
        }
        if leavesOpen, hasByteLimit { returnAllCredit() }
        return leavesOpen
    }

    // MARK: Who serves

    var isServedOnlyHere: Bool {
        let (source, waiters, isHandling) = state.withLock { state in
            (state.source, state.waiters, state.lifecycle.hasTurn(crl_thread_id()))
        }
        if waiters.isEmpty { return source?.isOnlyInCurrentLoop ?? false }
        // A second waiter may be another thread.
        return waiters.count == 1 && waiters[0] is any Service && isHandling && source?.isInNoLoop != false
    }

    func isServedOnlyHere(outside mode: ThreadRunLoop.Mode) -> Bool {
        guard isServedOnlyHere else { return false }
        let (source, waiters, mayBeTaken) = state.withLock { state in
            let handlers = state.handlers
            // A loop leaves the messages of a port without a handler to others.
            let isHandled = handlers.message != nil || handlers.ofDelegate != nil
            return (state.source, state.waiters, state.hasHadWaiters || !isHandled)
        }
        if mayBeTaken { return false }
        // A block of a dispatch queue has to end before the next one. A foreign loop may run inside this one.
        if let waiter = waiters.first { return waiter is QueueService }
        return source.map { !ThreadRunLoop.current.contains($0, forMode: mode) } ?? false
    }
}
