import RunLoops

// The end of a message port that leaves no request without its reply.

extension LocalMessagePort {
    /// Ends the port after the requests that were taken: gives up the name, refuses all further requests and those on
    /// their way, so that their askers can ask a successor, waits for the replies, and invalidates the port. A request
    /// that was taken counts until its reply has left, or its right to reply is released. Messages that want no reply do
    /// not count, and those that wait are dropped. Any thread may call this method but one that is to reply. A handler
    /// that has replied and goes on is waited for, too, up to the deadline, as ``MachPort/invalidate()`` does.
    /// Processes that are stopped get a second for the ends of all ports together: after that, no reply to them and no
    /// message of them is waited for.
    /// - Returns: False when the deadline came before all replies. The port is invalid all the same.
    @available(*, noasync, message: "it blocks; `await` it in an async function, not at the top of main.swift")
    @discardableResult
    public func finish(before deadline: ContinuousClock.Instant? = nil) -> Bool {
        guard !Fork.isChild else { return false }
        refuseFurther()
        let deadline = MonotonicInstant(deadline)
        defer { end(waitsUntil: deadline) }
        let areDone = taken.areDone.wait(until: deadline) != nil
        _ = senders?.wait(until: min(deadline, .now + FinishState.patience))
        return areDone
    }

    /// Ends the port as the form that blocks does, suspending the task, whose cancellation ends the wait as the deadline
    /// does. A handler that has replied may go on meanwhile.
    @discardableResult
    public nonisolated(nonsending) func finish(before deadline: ContinuousClock.Instant? = nil) async -> Bool {
        guard !Fork.isChild else { return false }
        refuseFurther()
        // The thread is the executor's, and not to be held up.
        defer { end(waitsUntil: nil) }
        let (deadline, housekeeping) = (MonotonicInstant(deadline), port.receiver.context.housekeeping)
        let areDone = (try? await taken.areDone.value(before: deadline, on: housekeeping)) != nil
        _ = try? await senders?.value(before: min(deadline, .now + FinishState.patience), on: housekeeping)
        return areDone
    }

    /// Set when no request is on its way any more. Also senders that came while replies were waited for have one.
    private var senders: Promise<Void>? { port.runtime.finishing.areDone(port.id.number) }

    private func end(waitsUntil deadline: MonotonicInstant?) {
        port.receiver.invalidate(waitsUntil: deadline)
        // Also while a handler goes on, as nobody takes from the port any more.
        port.runtime.control.tellInvalidated(port.id.number)
        port.runtime.finishing.remove(port.id.number)
    }

    private func refuseFurther() {
        // The name goes first, so that refused askers do not find this port again.
        renaming.withLock { _ in
            if let name { try? nameServer.remove(port, name: name) }
            taken.finish()
        }
        // Loops and tasks that have served the port need not go on.
        port.receiver.setHandlers(.init(message: { $0.refuse() }))
        let loop = try? port.receiver.context.housekeeping.loop()
        if let loop { try? port.receiver.schedule(in: loop, forMode: .default) }
        port.runtime.finishing.begin(port.id.number, taken)
    }
}
