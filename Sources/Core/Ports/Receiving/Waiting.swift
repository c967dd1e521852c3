import RunLoops

// Threads and tasks that wait for a message.

extension Receiver {
    /// Blocks until there is a message, and takes it.
    /// - Throws: ``PortError``: `receiveTimedOut` at the deadline, `isInvalid`, `becameInvalid`.
    func receive(before deadline: MonotonicInstant) throws(PortError) -> ReceivedMessage {
        try intake.beginTurn()
        isReceiverAway.store(false, ordering: .relaxed)
        defer { intake.endTurn() }
        if let message = takeMessage() { return message }
        let waiter = ThreadWaiter()
        takers.add(waiter)
        defer { takers.remove(waiter) }
        while true {
            // Checked after the waiter was added, because a message that came before has woken nobody.
            if let message = takeMessage() { return message }
            guard let descriptor = takers.descriptor else { throw .becameInvalid(port: identity) }
            // A flood of malformed frames must not extend the wait.
            guard !deadline.hasPassed, waiter.wait(for: descriptor, until: deadline) else {
                throw .receiveTimedOut(port: identity)
            }
        }
    }

    /// Suspends until there is a message, and takes it.
    /// - Parameters:
    ///   - deadline: The end of the wait.
    ///   - takesRequests: Whether requests are taken, too. Otherwise they are refused.
    /// - Throws: ``PortError``: `receiveTimedOut` at the deadline, `isInvalid`, `becameInvalid`. `CancellationError`.
    nonisolated(nonsending) func receive(
        before deadline: MonotonicInstant, takesRequests: Bool = false
    ) async throws -> ReceivedMessage {
        isReceiverAway.store(false, ordering: .relaxed)
        try Task.checkCancellation()
        if let message = try takeNow(takesRequests) { return message }
        let waiter = TaskWaiter(context.housekeeping)
        takers.add(waiter)
        defer { takers.remove(waiter) }
        while true {
            // Checked after the waiter was added, because a message that came before has woken nobody.
            if let message = try takeNow(takesRequests, orWatchWith: waiter) { return message }
            guard try await waiter.wait(until: deadline) else { throw PortError.receiveTimedOut(port: identity) }
        }
    }

    /// Suspends until a message waits, and takes none.
    /// - Throws: ``PortError``: `isInvalid`, `becameInvalid`. `CancellationError`.
    nonisolated(nonsending) func waitForMessage() async throws {
        let waiter = TaskWaiter(context.housekeeping)
        takers.add(waiter)
        defer { takers.remove(waiter) }
        while try !hasMessage(orWatchWith: waiter) { _ = try await waiter.wait(until: .distantFuture) }
    }

    private func hasMessage(orWatchWith waiter: TaskWaiter) throws(PortError) -> Bool {
        try intake.beginTurn()
        defer { intake.endTurn() }
        // The second question lets senders ring for the next message.
        if !intake.look().isEmpty || intake.mayHaveMore() { return true }
        if let descriptor = takers.descriptor { try waiter.watch(descriptor) }
        return false
    }

    private func takeNow(
        _ takesRequests: Bool, orWatchWith waiter: TaskWaiter? = nil
    ) throws(PortError) -> ReceivedMessage? {
        do {
            // The turn keeps the socket open until the waiter watches the descriptor.
            try intake.beginTurn()
        } catch {
            throw waiter != nil && error == .isInvalid(port: identity) ? .becameInvalid(port: identity) : error
        }
        defer { intake.endTurn() }
        if let message = takeMessage(takesRequests) { return message }
        if let waiter, let descriptor = takers.descriptor { try waiter.watch(descriptor) }
        return nil
    }

    func takeMessage(_ takesRequests: Bool = false) -> ReceivedMessage? {
        while let delivery = intake.take(needsHandler: false) {
            if delivery.isFirst { takers.tell() }
            guard let message = delivery.message else { continue }
            inHand.note(message)
            delivery.handler?(message)
            if message.header.kind == .message || takesRequests && message.header.kind == .request { return message }
            message.refuse()
        }
        return nil
    }
}
