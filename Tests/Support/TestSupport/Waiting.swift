import Glibc
import RunLoops

extension ContinuousClock.Instant {
    /// Long enough for all work on a busy machine, where a task may have to wait for all tests that block its thread.
    package static var patience: Self { .now + .seconds(60) }
}

extension Duration {
    /// Long enough for all work on a busy machine, where a task may have to wait for all tests that block its thread.
    package static var patience: Duration { .seconds(60) }
}

extension MonotonicInstant {
    /// Long enough for all work on a busy machine, where a task may have to wait for all tests that block its thread.
    package static var patience: MonotonicInstant { .now + .seconds(60) }

    /// The end of a timeout; nil for none.
    package init(after timeout: Duration?) { self = timeout.map { .now + $0 } ?? .distantFuture }
}

/// Polls a condition that no event announces.
///
/// - Returns: False when the deadline came first.
@discardableResult
package func waitUntil(
    before deadline: ContinuousClock.Instant = .patience, _ condition: () throws -> Bool
) rethrows -> Bool {
    while try !condition() {
        if deadline.hasPassed { return false }
        usleep(200)
    }
    return true
}

/// Polls in a task, which must not block its thread.
@discardableResult
package func waitUntil(_ condition: () async -> Bool) async -> Bool {
    let deadline = ContinuousClock.Instant.patience
    while await !condition() {
        if deadline.hasPassed { return false }
        try? await Task.sleep(for: .milliseconds(1))
    }
    return true
}

extension Latch {
    package var isOpen: Bool { wait(until: .now) }
}
