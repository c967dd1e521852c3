import Synchronization

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
