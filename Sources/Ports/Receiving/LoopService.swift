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
                hasWork: { [queue = channel.localQueue] in queue?.hasMessages ?? true }
            ) { [self, face] turn in
                withExtendedLifetime(face) { serve(&turn) }
            }
            state.source = source
            return source
        }
    }

    func remove(from loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) {
        // A forked child shares the wait sets with its parent.
        if let source = state.withLockUnlessForked({ $0.source }) ?? nil { loop.remove(source, forMode: mode) }
    }

    func isScheduled(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) -> Bool {
        guard let source = state.withLockUnlessForked({ $0.source }) ?? nil else { return false }
        return loop.contains(source, forMode: mode)
    }

    /// Handles messages in a loop's turn.
    private func serve(_ turn: inout ThreadRunLoop.Turn) -> Bool {
        guard (try? beginTurn()) != nil else {
            turn.source.clear()
            return false
        }
        defer { endTurn() }
        var handled = false
        var used = LocalQueue.Batch()
        defer { channel.localQueue?.reuse(&used) }
        var handlers = Handlers(generation: -1)
        // Whether the loop has to come back to this port. Cleared when the turn finds nothing more.
        var mustRaise = false
        var isReported = !turn.readiness.isEmpty
        var frame: ZeroMQFrame?
        while turn.next() {
            if let message = takeAtHand(&handlers, &frame, &isReported) {
                inHand.note(message.header, isLocal: true)
                handlers.handle(message, &used)
                handled = true
                continue
            }
            if let frame = frame.take() {
                guard let frame = checked(frame) else { continue }
                inHand.show(frame) { handlers.handle(frame) }
                handled = true
                continue
            }
            if turn.source.poll(during: turn) {
                if leavesListOpen(&isReported) {
                    mustRaise = false
                    break
                }
                turn.source.stopPolling(during: turn)
            }
            guard var delivery = take(source: turn.source, isReported: isReported) else {
                mustRaise = false
                break
            }
            if delivery.isFirst {
                mustRaise = turn.source.raiseIfNested(during: turn)
                wakeWaiters()
            }
            delivery.handle(&used, inHand)
            handled = true
        }
        turn.source.settleRaise(during: turn)
        // A check costs less than a turn that finds nothing, and leaves the loop's next pass to other events.
        if mustRaise, mayHaveMore() { turn.source.raise(during: turn) }
        return handled
    }

    /// Whether nothing waits, and only the loop whose turn it is takes messages: while it polls, the list can stay open.
    private func leavesListOpen(_ isReported: inout Bool) -> Bool {
        let leavesOpen = state.withLock { state in
            guard state.lifecycle.isOpen, state.mayHaveMore, state.waiters.isEmpty,
                state.arrivals.hasNothing(state.socket, isReported: &isReported)
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
