import RunLoopLocks
import RunLoops

/// A value that several threads, or several closures, use.
package final class Shared<Value: Sendable>: Sendable {
    private let value: Lock<Value>

    package init(_ value: Value) { self.value = Lock(value) }

    @discardableResult
    package func withLock<Result: Sendable>(_ body: (inout Value) -> Result) -> Result {
        value.withLock { value in body(&value) }
    }
}
