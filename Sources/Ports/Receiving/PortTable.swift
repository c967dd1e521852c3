import RunLoopLocks

/// The ports of a runtime by their numbers.
final class PortTable: Sendable {
    private struct State {
        var entries: [UInt64: Weak<Receiver>] = [:]
        var lastNumber: UInt64 = 0
    }

    private let state = Lock(State())

    /// A number that no port of the runtime has had.
    func nextNumber() -> UInt64 {
        state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
    }

    func add(_ port: Receiver) { state.withLock { $0.entries[port.id.number] = Weak(port) } }
    func remove(_ number: UInt64) { state.withLock { $0.entries[number] = nil } }
    func port(_ number: UInt64) -> Receiver? { state.withLock { $0.entries[number]?.object } }
    var count: Int { state.withLock { $0.entries.count } }
    var all: [Receiver] { state.withLock { $0.entries.values.compactMap(\.object) } }
}
