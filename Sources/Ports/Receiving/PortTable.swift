import RunLoopLocks
import Synchronization

/// The ports of a runtime by their numbers.
final class PortTable: Sendable {
    private let entries = Lock<[UInt64: Weak<Receiver>]>([:])
    private let lastNumber = Atomic<UInt64>(0)

    /// A number that no port of the runtime has had.
    func nextNumber() -> UInt64 { lastNumber.add(1, ordering: .relaxed).newValue }

    func add(_ port: Receiver) { entries.withLock { $0[port.id.number] = Weak(port) } }
    func remove(_ number: UInt64) { entries.withLock { $0[number] = nil } }
    func port(_ number: UInt64) -> Receiver? { entries.withLock { $0[number]?.object } }
    var count: Int { entries.withLock { $0.count } }
    var all: [Receiver] { entries.withLock { $0.values.compactMap(\.object) } }
}
