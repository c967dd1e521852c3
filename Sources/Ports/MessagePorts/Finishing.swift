import RunLoops

// The end of a message port that leaves no request without its reply.

extension LocalMessagePort {
    /// Ends the port after the requests that were taken: gives up the name, refuses all further requests, so that their
    /// askers can ask a successor, waits for the replies, and invalidates the port. A request that was taken counts until
    /// its reply has left, or its right to reply is released. Messages that want no reply do not count, and those
    /// that wait are dropped. Any thread may call this method but one that is to reply.
    /// - Returns: False when the deadline came first. The port is invalid all the same.
    @available(*, noasync, message: "it blocks its thread; `await` the other one")
    @discardableResult
    public func finish(before deadline: ContinuousClock.Instant? = nil) -> Bool {
        guard !Fork.isChild else { return false }
        refuseFurther()
        defer { invalidate() }
        return taken.areDone.wait(until: MonotonicInstant(deadline)) != nil
    }

    /// Ends the port as the form that blocks does, suspending the task, whose cancellation ends the wait as the deadline
    /// does.
    @discardableResult
    public nonisolated(nonsending) func finish(before deadline: ContinuousClock.Instant? = nil) async -> Bool {
        guard !Fork.isChild else { return false }
        refuseFurther()
        defer { invalidate() }
        let deadline = MonotonicInstant(deadline)
        return (try? await taken.areDone.value(before: deadline, on: port.receiver.context.housekeeping)) != nil
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
    }
}
