/// The end of a thread, which threads and tasks wait for.
final class ThreadEnd: Sendable {
    private let latch = Latch()
    private let isOver = AwaitedState(false) { $0 ? true : nil }

    func tell() {
        latch.open()
        isOver.change { $0 = true }
    }

    /// False when the deadline came first.
    func wait(until deadline: MonotonicInstant) -> Bool { latch.wait(until: deadline) }

    /// Suspends until the thread has ended, or the task was cancelled.
    nonisolated(nonsending) func value() async { _ = await isOver.value() }

    /// False when the deadline came first.
    nonisolated(nonsending) func value(before deadline: ContinuousClock.Instant?) async throws -> Bool {
        let hasCome = try await withThrowingTaskGroup { group in
            group.addTask { await self.isOver.value() }
            if let deadline {
                group.addTask {
                    try await Task.sleep(until: deadline, clock: .continuous)
                    return false
                }
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
        guard let hasCome else { throw CancellationError() }
        return hasCome || latch.wait(until: .distantPast)
    }
}
