import CRunLoopShims
import RunLoops

// The end of a port: (1) refuse new turns, (2) leave all loops, (3) refuse senders, (4) give up names, (5) wait for the
// turns of other threads, (6) refuse queued requests, (7) close the socket, (8) call the handlers of this process's
// rights to the port, (9) tell peers, (10) call the port's handlers.

extension Receiver {
    /// Makes the port invalid, for good. See ``MachPort/invalidate()``.
    /// - Parameters:
    ///   - deadline: The end of the wait for a message that another thread is handling, where the call can wait; nil
    ///     for no wait.
    ///   - keepsOwnTurn: Whether peers learn the end after the calling thread's turn, and so after its reply.
    func invalidate(waitsUntil deadline: MonotonicInstant? = .distantFuture, keepsOwnTurn: Bool = false) {
        // In a forked child, the port, its names and its sockets are the parent's.
        guard state.withLockUnlessForked({ $0.lifecycle.invalidate() }) == true else { return }
        wakeWaiters()
        let (source, bells, names) = state.withLock { ($0.source, $0.bellSource, $0.names) }
        // Before the socket is closed, and its descriptor's number reused.
        source?.invalidate()
        bells?.invalidate()
        scheduling.withLock { _ in }
        // Before the wait for turns, because a handler that waits for room in this port would never end.
        channel.end(.invalid)
        for held in names.elements { held.directory.abandon(held.name, of: id) }
        // No thread has the id 0.
        if waitForTurns(ofOthersThan: keepsOwnTurn ? 0 : crl_thread_id(), deadline) { finish() }
    }

    /// - Returns: False when the last turn will call `finish` instead.
    private func waitForTurns(ofOthersThan thread: Int32, _ deadline: MonotonicInstant?) -> Bool {
        let turnsEnded = Promise<Void>()
        let isLater = state.withLock { state in
            state.lifecycle.finishLater(on: thread, hasEnded: { crl_thread_has_ended($0) }) {
                turnsEnded.set(())
            }
        }
        guard isLater else { return true }
        // Two threads in handlers could wait for each other.
        let mayWait = crl_callout_depth().pointee == 0 && !context.housekeeping.isCurrent
        if mayWait, let deadline {
            // Polls, because a thread that ends inside its turn does not end the turn.
            while !deadline.hasPassed {
                let hasEnded = turnsEnded.wait(until: min(deadline, .now + .milliseconds(50))) != nil
                if hasEnded || !isOthersTurn { return true }
            }
        }
        turnsEnded.whenSet { self.finish() }
        finishAfterDeadThreads(turnsEnded)
        return false
    }

    /// A thread that ends inside its turn does not end the turn.
    private func finishAfterDeadThreads(_ turnsEnded: Promise<Void>) {
        context.housekeeping.perform(after: .seconds(1)) { [weak self, weak turnsEnded] in
            guard let self, let turnsEnded, turnsEnded.value == nil else { return }
            if isOthersTurn { finishAfterDeadThreads(turnsEnded) } else { turnsEnded.set(()) }
        }
    }

    private var isOthersTurn: Bool {
        state.withLock { $0.lifecycle.isOthersTurn(on: crl_thread_id(), hasEnded: { crl_thread_has_ended($0) }) }
    }

    private func finish() {
        refuseQueued()
        var former = Handlers()
        // Removed first, because a sender that misses its connection checks whether the socket is still there.
        state.withLock { $0.exposedIn }?.removeSocket(of: id)
        let socket = state.withLock { state in
            state.arrivals.endLanes()
            state.both = nil
            return state.socket.take()
        }
        if let socket { SocketFactory.close(socket, channel.takeBell(), of: id) }
        let (queue, tapped) = state.withLock { state in
            state.lifecycle.finish()
            swap(&state.handlers, &former)
            state.waiters.removeAll { $0 === state.queue }
            defer { (state.queue, state.tapped) = (nil, nil) }
            return (state.queue, state.tapped)
        }
        withExtendedLifetime(tapped) {}
        queue?.stop()
        context.ports.remove(self)
        channel.invalidate()
        context.control.tellInvalidated(id.number)
        invalidated.set(())
    }

    /// The time for refusing other processes' requests one by one. The askers of the rest learn the end of the port.
    private static let refusalTime = Duration.milliseconds(100)

    private func refuseQueued() {
        // Senders in other processes may send faster than this until they learn the end.
        let deadline = MonotonicInstant.now + Self.refusalTime
        state.withLock { $0.arrivals.lanes.endAllWhenEmpty() }
        while true {
            var (makesRoom, reports) = (false, Arrivals.Reports.all)
            let next = state.withLock { state in
                state.arrivals.next(state.socket, &reports, makesRoom: &makesRoom)
            }
            switch consume next {
            case .local(let message):
                // A peer may send by its lane without end.
                if message.sender != nil, deadline.hasPassed { state.withLock { $0.arrivals.endLanes() } }
                // The queue takes no more messages. A message that stays could retain its own port's channel for ever.
                end(.local(message))
            case .frame(let frame, let sender):
                if deadline.hasPassed {
                    // Then only the local messages are refused.
                    state.withLock { state in
                        state.arrivals.hasPeers = false
                        state.arrivals.endLanes()
                    }
                    continue
                }
                let frame = ReceivedFrame(frame, sender: sender, context.channels)
                if frame.malformed == nil { end(.frame(frame)) }
            case .nothing:
                return
            }
        }
    }

    private func end(_ message: ReceivedMessage) {
        if message.header.kind == .message { context.channels.droppedCount.add(1, ordering: .relaxed) }
        message.refuse()
    }

    func onInvalidation(_ handler: @escaping @Sendable () -> Void) {
        if !Fork.isChild { invalidated.whenSet { handler() } }
    }

    /// Ends the port with its runtime, without calling handlers.
    func close() {
        let (source, bells, queue) = state.withLock { state in
            _ = state.lifecycle.invalidate()
            // The directories hold descriptors, and loops may still hold the port.
            defer { (state.queue, state.exposedIn, state.names) = (nil, nil, RecentSet()) }
            return (state.source, state.bellSource, state.queue)
        }
        // Before the socket is closed, and its descriptor's number reused.
        source?.invalidate()
        bells?.invalidate()
        queue?.stop()
        scheduling.withLock { _ in }
        state.withLock { state in
            state.lifecycle.finish()
            state.arrivals.endLanes()
            state.socket = nil
            state.both = nil
        }
        wakeWaiters()
    }
}
