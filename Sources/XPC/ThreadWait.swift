import RunLoopLocks
import RunLoops

/// A thread that waits for a value, which another thread brings.
final class ThreadWait<Value: Sendable>: Sendable {
    private let latch = Latch()
    private let result = Lock<Value?>(nil)

    func end(_ value: Value) {
        result.withLock { $0 = value }
        latch.open()
    }

    /// Blocks until ``end(_:)``.
    func value() -> Value {
        while true {
            _ = latch.wait(until: .distantFuture)
            if let value = result.withLock({ $0 }) { return value }
        }
    }
}
