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
    nonisolated(nonsending) func value(before deadline: ContinuousClock.Instant?) async throws(CancellationError)
        -> Bool
    {
        if await isOver.value(before: MonotonicInstant(deadline)) ?? latch.wait(until: .distantPast) { return true }
        if Task.isCancelled { throw CancellationError() }
        return false
    }
}
