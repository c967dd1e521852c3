import RunLoops

// The end of a message port, with a reply for each request that was taken.

extension LocalMessagePort {
    /// Ends the port after the requests that have handlers. The port gives up its name, and refuses all further requests,
    /// those on their way, and those that wait for their lane, so that their askers can ask a successor. The call blocks
    /// until the replies have left, and then invalidates the port.
    ///
    /// A request that has a handler counts until its reply has left, or its right to reply is released. Messages that want
    /// no reply do not count, and are dropped if they wait. Any thread may call this method except one that has to
    /// reply. The call also waits for a handler that has replied and goes on, as ``MachPort/invalidate()`` does.
    /// Stopped processes get one second for the ends of all ports together. After that, the port waits neither for
    /// replies to them nor for messages from them.
    /// - Parameter deadline: The end of the wait; nil for no end.
    /// - Returns: False when the deadline came before all replies. The port is invalid in any case.
    @available(*, noasync, message: "it blocks; `await` it in an async function, not at the top of main.swift")
    @discardableResult
    public func finish(before deadline: ContinuousClock.Instant? = nil) -> Bool {
        guard !Fork.isChild else { return false }
        refuseFurther()
        let deadline = MonotonicInstant(deadline)
        defer { end(waitsUntil: deadline) }
        let areDone = ledger.areDone.wait(until: deadline) != nil
        _ = senders?.wait(until: min(deadline, .now + FinishState.patience))
        return areDone
    }

    /// Ends the port after the requests that have handlers. The port gives up its name, and refuses all further requests,
    /// those on their way, and those that wait for their lane, so that their askers can ask a successor. The task is
    /// suspended until the replies have left, and then the port is invalidated. A cancellation ends the wait as the
    /// deadline does. A handler that has
    /// replied may go on meanwhile.
    /// - Parameter deadline: The end of the wait; nil for no end.
    /// - Returns: False when the deadline came before all replies. The port is invalid in any case.
    @discardableResult
    public nonisolated(nonsending) func finish(before deadline: ContinuousClock.Instant? = nil) async -> Bool {
        guard !Fork.isChild else { return false }
        refuseFurther()
        // The thread is the executor's, and must not be blocked.
        defer { end(waitsUntil: nil) }
        let (deadline, housekeeping) = (MonotonicInstant(deadline), port.receiver.context.housekeeping)
        let areDone = (try? await ledger.areDone.value(before: deadline, on: housekeeping)) != nil
        _ = try? await senders?.value(before: min(deadline, .now + FinishState.patience), on: housekeeping)
        return areDone
    }

    /// Set when no request is on its way any more. It also covers senders that connected during the wait for replies.
    private var senders: Promise<Void>? { port.runtime.finishing.areDone(port.receiver.id.number) }

    private func end(waitsUntil deadline: MonotonicInstant?) {
        port.receiver.invalidate(waitsUntil: deadline)
        // Peers learn the end also while a handler goes on, because nobody takes from the port any more.
        port.runtime.control.tellInvalidated(port.receiver.id.number)
        port.runtime.finishing.remove(port.receiver.id.number)
    }

    /// Gives up the name, and refuses all requests that have no handler.
    package func refuseFurther() {
        // The name goes first, so that refused askers do not find this port again.
        renaming.withLock { _ in
            if let name { try? nameServer.remove(port, name: name) }
            ledger.finish()
        }
        ledger.serving.finish()
        // The housekeeping thread refuses further messages, because the port's loops and tasks may have stopped.
        port.receiver.setHandlers(.init(message: { $0.refuse() }))
        let loop = try? port.receiver.context.housekeeping.loop()
        if let loop { try? port.receiver.schedule(in: loop, forMode: .default) }
        port.runtime.finishing.begin(port.receiver.id.number, ledger)
    }
}
