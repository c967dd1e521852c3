import Glibc
import RunLoops

extension MonotonicInstant {
    /// Far enough for whatever has to happen on a busy machine, where a task may have to wait for all tests that block
    /// its thread.
    package static var patience: MonotonicInstant { .now + .seconds(60) }
}

/// Polls a condition that no event announces.
///
/// - Returns: False when the deadline came first.
@discardableResult
package func waitUntil(
    before deadline: MonotonicInstant = .patience, _ condition: () throws -> Bool
) rethrows -> Bool {
    while try !condition() {
        if deadline.hasPassed { return false }
        usleep(200)
    }
    return true
}

/// Polls in a task, which must not block its thread.
@discardableResult
package func waitUntil(_ condition: () -> Bool) async -> Bool {
    let deadline = MonotonicInstant.patience
    while !condition() {
        if deadline.hasPassed { return false }
        try? await Task.sleep(for: .milliseconds(1))
    }
    return true
}
