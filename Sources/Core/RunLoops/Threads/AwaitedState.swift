import RunLoopLocks

/// A state that tasks wait for. Each task takes a value as soon as the state has one. Tasks take in the order they came.
final class AwaitedState<State: Sendable, Value: Sendable>: Sendable {
    private struct Content {
        var state: State
        var waiters: [(number: UInt64, continuation: CheckedContinuation<Value?, Never>)] = []
        var lastNumber: UInt64 = 0
    }

    private let content: Lock<Content>
    private let take: @Sendable (inout State) -> Value?

    /// - Parameter take: Takes a value from the state, if there is one. Called with the lock held.
    init(_ state: State, take: @escaping @Sendable (inout State) -> Value?) {
        content = Lock(Content(state: state))
        self.take = take
    }

    /// Changes the state with the lock held, and then resumes the tasks that it has a value for.
    func change(_ body: (inout State) -> Void) {
        let served = content.withLock { content in
            body(&content.state)
            var served: [(CheckedContinuation<Value?, Never>, Value)] = []
            while served.count < content.waiters.count, let value = take(&content.state) {
                served.append((content.waiters[served.count].continuation, value))
            }
            content.waiters.removeFirst(served.count)
            return served
        }
        for (continuation, value) in served { continuation.resume(returning: value) }
    }

    /// Suspends until there is a value, and takes it; nil when the task was cancelled, or the deadline came, and there is
    /// none.
    nonisolated(nonsending) func value(before deadline: MonotonicInstant = .distantFuture) async -> Value? {
        let number = content.withLock { content in
            content.lastNumber += 1
            return content.lastNumber
        }
        var alarm: Alarm?
        defer { alarm?.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (value, waits) = content.withLock { content in
                    let value = take(&content.state)
                    // A task that is cancelled later finds itself among the waiters.
                    let waits = value == nil && !Task.isCancelled
                    if waits { content.waiters.append((number, continuation)) }
                    return (value, waits)
                }
                guard waits else { return continuation.resume(returning: value) }
                // When the waiter is there, because a passed deadline comes at once.
                if deadline != .distantFuture { alarm = Alarm(at: deadline) { [weak self] in self?.giveUp(number) } }
            }
        } onCancel: {
            giveUp(number)
        }
    }

    private func giveUp(_ number: UInt64) {
        let waiter = content.withLock { content in
            content.waiters.firstIndex { $0.number == number }.map { content.waiters.remove(at: $0) }
        }
        waiter?.continuation.resume(returning: nil)
    }
}
