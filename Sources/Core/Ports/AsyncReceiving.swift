import RunLoops
import Synchronization

extension MachPort {
    /// The port's messages, one after the other, for a task's `for await`.
    ///
    /// The sequence takes a message only when the task asks for one, so a slow task causes back-pressure. Each message
    /// goes to one task, loop or thread. The sequence keeps the port, and ends with its validity or the task.
    public var messages: Messages { Messages(port: self, iteration: nil) }

    /// The messages of a port. See ``MachPort/messages``.
    public struct Messages: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let port: MachPort
        let iteration: TaskIteration?

        /// Starts to take messages.
        public func makeAsyncIterator() -> Messages { Messages(port: port, iteration: TaskIteration(port.receiver)) }

        /// Suspends until there is a message, and takes it; nil when the port is invalid or the task cancelled.
        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> Message? {
            (try? await port.receiver.receive(before: .distantFuture)).map(Message.init)
        }
    }

    /// Waits for the next message as the form that blocks does, suspending the task. Throws also `CancellationError`.
    public nonisolated(nonsending) func receive(
        before deadline: ContinuousClock.Instant? = nil
    ) async throws -> Message {
        let message = try await receiver.receive(before: MonotonicInstant(deadline))
        receiver.isReceiverAway.store(true, ordering: .relaxed)
        return Message(message)
    }

    /// Suspends until a message waits, and takes none: for a lender, which gives the port to somebody who does.
    package nonisolated(nonsending) func waitForMessage() async throws { try await receiver.waitForMessage() }
}

/// A task's `for await` over a port's messages: as long as it lasts, also while the task handles a message, the port is
/// served.
final class TaskIteration: Sendable {
    private let receiver: Receiver

    init(_ receiver: Receiver) {
        self.receiver = receiver
        receiver.iteratingTasks.add(1, ordering: .relaxed)
    }

    deinit { receiver.iteratingTasks.subtract(1, ordering: .relaxed) }
}
