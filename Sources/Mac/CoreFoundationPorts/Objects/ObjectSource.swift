@preconcurrency import CoreFoundation
import RunLoopLocks

/// The run-loop source of an object, which keeps the object. It is the same one as long as it lives and is valid.
final class ObjectSource: @unchecked Sendable {
    // Sound: used under the lock.
    private weak var source: CFRunLoopSource?
    private let lock = Lock(())

    /// Calls with the source, unless the program has invalidated it, while nobody else makes one.
    func use<Result>(_ body: (CFRunLoopSource?) -> Result) -> Result {
        nonisolated(unsafe) var result: Result?
        lock.withLock { _ in result = body(source.flatMap { CFRunLoopSourceIsValid($0) ? $0 : nil }) }
        guard let result else { preconditionFailure("the body has returned") }
        return result
    }

    /// The source: the one that was made before, or a new one.
    func source(orMake make: () -> CFRunLoopSource?) -> CFRunLoopSource? {
        use { present in
            if let present { return present }
            let made = make()
            source = made
            return made
        }
    }

    /// Removes the source from its loops.
    func invalidate() { if let source = use({ $0 }) { CFRunLoopSourceInvalidate(source) } }
}
