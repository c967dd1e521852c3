import CRunLoopShims
import RunLoops
import Synchronization

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
        guard intake.invalidate() else { return }
        takers.end()
        // Before the wait for turns, because a handler that waits for room in this port would never end.
        channel.end(.invalid)
        // A lender takes the names with the port, and a process that is taking the port takes them, too.
        if arrival?.lender != nil || exposure.isHidden { exposure.leaveNames() } else { exposure.abandonNames() }
        // No thread has the id 0.
        if waitForTurns(ofOthersThan: keepsOwnTurn ? 0 : crl_thread_id(), deadline) { finish() }
    }

    /// Ends the port here, because it has moved to another process. Its senders follow it.
    /// The entries of its names keep them from others until that process, or the lender, has them.
    func leave() {
        guard intake.invalidate() else { return }
        takers.end()
        exposure.leaveNames()
        context.control.tellInvalidated(id.number)
        if waitForTurns(ofOthersThan: crl_thread_id(), nil) { finish() }
    }

    /// - Returns: False when the last turn will call `finish` instead.
    private func waitForTurns(ofOthersThan thread: Int32, _ deadline: MonotonicInstant?) -> Bool {
        let turnsEnded = Promise<Void>()
        guard intake.finishLater(on: thread, { turnsEnded.set(()) }) else { return true }
        // Two threads in handlers could wait for each other.
        let mayWait = crl_callout_depth().pointee == 0 && !context.housekeeping.isCurrent
        if mayWait, let deadline {
            // Polls, because a thread that ends inside its turn does not end the turn.
            while !deadline.hasPassed {
                let hasEnded = turnsEnded.wait(until: min(deadline, .now + .milliseconds(50))) != nil
                if hasEnded || !intake.isOthersTurn { return true }
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
            if intake.isOthersTurn { finishAfterDeadThreads(turnsEnded) } else { turnsEnded.set(()) }
        }
    }

    /// The time for refusing other processes' requests one by one. The askers of the rest learn the end of the port.
    private static let refusalTime = Duration.milliseconds(100)

    private func finish() {
        // The exit of the process may have closed the port, which leaves everything to its lender.
        if intake.isClosed { return }
        let left = arrival?.lender != nil ? intake.leaveToLender() : []
        // The queue takes no more messages. A message that stays could retain its own port's channel for ever.
        intake.refuseQueued(until: .now + Self.refusalTime) { message in
            if message.header.kind == .message { context.channels.droppedCount.add(1, ordering: .relaxed) }
            message.refuse()
        }
        // Removed first, because a sender that misses its connection checks whether the socket is still there.
        exposure.removeSocket()
        exposure.closeListener()
        takers.close()
        if let zeroMQ = intake.close() { SocketFactory.close(zeroMQ, channel.takeBell(), of: id) }
        // An asker that learns the end asks for its requests.
        let goesOn = channel.hasMoved.load(ordering: .acquiring) || arrival?.lender != nil
        if goesOn, let requests, !requests.isEmpty { context.ports.keep(requests, of: id.number) }
        context.ports.remove(self)
        if channel.hasMoved.load(ordering: .acquiring) {
            context.control.events?.ownPortHasMoved(id.number)
        } else {
            // The lender finds there who has had the port last. The rights of this process follow the port to it.
            if arrival?.lender == nil {
                exposure.forgetHome()
                if exposure.hasLeftNames { exposure.abandonNames() }
                channel.invalidate()
            } else {
                channel.returns(in: exposure.directoryPath)
                exposure.abandonNamesWhenTaken()
            }
        }
        context.control.tellInvalidated(id.number)
        left.tellMoved(from: id.number)
        withExtendedLifetime(offer.withLock { $0.take() }) {}
        invalidated.set(())
    }

    /// Ends the port with its runtime, without calling handlers.
    func close() {
        _ = intake.invalidate()
        takers.end()
        takers.close()
        exposure.close()
        _ = intake.close()
    }
}
