import RunLoops

extension MachPort {
    /// The port's messages, one after the other, for a task.
    ///
    ///     for await message in port.messages {
    ///         print("got", message.id)
    ///     }
    ///
    /// The sequence takes a message only when the task asks for one, so a slow task causes back-pressure. Any number of
    /// tasks, loops and threads may take messages of one port; each message goes to one of them. The sequence keeps the
    /// port, and ends when the port becomes invalid or the task is cancelled.
    public var messages: Messages { Messages(port: self) }

    /// The messages of a port. See ``MachPort/messages``.
    public struct Messages: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let port: MachPort

        /// Starts to take messages.
        public func makeAsyncIterator() -> Messages { self }

        /// Suspends until there is a message, and takes it; nil when the port is invalid or the task cancelled.
        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> Message? {
            try? await port.receive(before: .distantFuture)
        }
    }

    /// Waits for the next message as the form that blocks does, suspending the task. Throws also `CancellationError`,
    /// when no message was taken.
    public nonisolated(nonsending) func receive(
        before deadline: MonotonicInstant = .distantFuture
    ) async throws -> Message {
        Message(try await receiver.receive(before: deadline))
    }
}
