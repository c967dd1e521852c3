import RunLoopLocks
import Synchronization

/// What a ``CBORPool`` keeps.
protocol CBORPooled: AnyObject {
    init()
    /// Drops what belongs to one use.
    func end()
}

/// Keeps writers or readers for the next use, and never frees one. So encoders, decoders and their containers need not
/// count references, which would cost more than the rest of their work: one that a value keeps beyond its time finds the
/// object in another use, and throws an error. There are as many objects as were ever in use at once.
final class CBORPool<Object: CBORPooled>: Sendable {
    /// The address of one object; 0 for none. Most threads need no other.
    private let first = Atomic<UInt>(0)
    private let others = Lock<[UInt]>([])

    @inline(__always) func use<R>(_ body: (Unmanaged<Object>) throws -> R) rethrows -> R {
        let object = take()
        defer { give(object) }
        return try body(object)
    }

    @inline(__always) private func take() -> Unmanaged<Object> {
        let address = first.exchange(0, ordering: .acquiring)
        guard let pointer = UnsafeRawPointer(bitPattern: address) else { return takeOther() }
        return .fromOpaque(pointer)
    }

    private func takeOther() -> Unmanaged<Object> {
        let address = others.withLock { $0.popLast() } ?? 0
        guard let pointer = UnsafeRawPointer(bitPattern: address) else { return .passRetained(Object()) }
        return .fromOpaque(pointer)
    }

    @inline(__always) private func give(_ object: Unmanaged<Object>) {
        object._withUnsafeGuaranteedRef { $0.end() }
        let former = first.exchange(UInt(bitPattern: object.toOpaque()), ordering: .acquiringAndReleasing)
        if former != 0 { others.withLock { $0.append(former) } }
    }
}
