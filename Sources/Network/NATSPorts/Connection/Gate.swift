import RunLoopLocks
import RunLoops

/// A signal that can come again and again, for tasks that wait until a deadline. For an event that comes once, there is
/// `OneShot`.
final class Gate: Sendable {
    private let opening = Lock(OneShot<Void>())

    func open() { opening.withLock { $0 }.set(()) }

    /// Lets later tasks wait again.
    func close() { opening.withLock { if $0.isSet { $0 = OneShot() } } }

    /// Suspends until the gate is open, the deadline, or the end of the task.
    /// - Returns: False when the deadline or the cancellation came first.
    @discardableResult
    nonisolated(nonsending) func wait(until deadline: ContinuousClock.Instant? = nil) async -> Bool {
        await opening.withLock { $0 }.wait(until: deadline) != nil
    }
}
