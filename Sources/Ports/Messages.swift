import RunLoops

extension MachPort {
    /// The port's messages, one after the other, for a task.
    ///
    ///     for await message in port.messages {
    ///         print("got", message.id)
    ///     }
    ///
    /// Nothing is taken before the loop asks for it: what a task is too slow for waits in the port's queue, and then
    /// its senders do. Any number of tasks may take from one port, loops and `receive(before:)` too; each message
    /// goes to one of them. The sequence ends when the port becomes invalid or the task is cancelled. It
    /// keeps the port.
    public var messages: Messages { Messages(port: self) }

    /// The messages of a port. See ``MachPort/messages``.
    public struct Messages: AsyncSequence, Sendable {
        let port: MachPort

        /// Starts to take messages.
        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(port: port) }

        /// Takes messages from a port.
        public struct AsyncIterator: AsyncIteratorProtocol {
            let port: MachPort

            /// Suspends until there is a message, and takes it; nil when the port is invalid or the task cancelled.
            public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> Message? {
                try? await port.take(before: .distantFuture)
            }
        }
    }

    /// Waits for the next message and takes it, suspending the task. Loops and others that wait take their share.
    ///
    /// - Parameter deadline: How long to wait. A deadline in the past takes only what is there.
    /// - Throws: ``PortError``: `receiveTimedOut`, `isInvalid`, `becameInvalid`; `CancellationError`, when no message
    ///   was taken.
    public func receive(before deadline: MonotonicInstant = .distantFuture) async throws -> Message {
        try await take(before: deadline)
    }

    nonisolated(nonsending) private func take(before deadline: MonotonicInstant) async throws -> Message {
        try Task.checkCancellation()
        if let message = try takeNow() { return message }
        let waiter = TaskWaiter()
        add(waiter)
        defer { remove(waiter) }
        while true {
            // Once more as one who waits: what came in between would not be told.
            var isWatched = false
            if let message = try takeNow(orWatchWith: waiter, &isWatched) { return message }
            if deadline.hasPassed { throw PortError.receiveTimedOut(port: description) }
            if isWatched {
                try await waiter.wait(until: deadline)
            } else {
                // No descriptor is left to watch with: it has to do without until there is.
                try await Task.sleep(for: .milliseconds(10))
            }
            try Task.checkCancellation()
        }
    }
}
