import RunLoops

extension MachPort {
    /// The port's messages, one after the other, for a task.
    ///
    ///     for await message in port.messages {
    ///         print("got", message.id)
    ///     }
    ///
    /// The sequence takes a message only when the task asks for it: messages that a task is too slow for wait in the port's
    /// queue, and then their senders wait. Any number of tasks may take from one port, loops and `receive(before:)`
    /// too; each message goes to one of them. The sequence ends when the port becomes invalid or the task is
    /// cancelled. It keeps the port.
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
                try? await port.receive(before: .distantFuture)
            }
        }
    }

    /// Waits for the next message and takes it, suspending the task. Loops and other waiters take their share.
    ///
    /// - Parameter deadline: How long to wait. A deadline in the past takes only what is there.
    /// - Throws: ``PortError``: `receiveTimedOut`, `isInvalid`, `becameInvalid`; `CancellationError`, when no message
    ///   was taken.
    public nonisolated(nonsending) func receive(
        before deadline: MonotonicInstant = .distantFuture
    ) async throws -> Message {
        Message(try await receiver.receive(before: deadline))
    }
}
