import RunLoops

/// The ports of a runtime by their numbers.
final class PortTable: Sendable {
    /// A class, because a dictionary whose values hold weak references corrupts them (Swift 6.3, debug).
    private final class Entry: Sendable {
        weak let port: Receiver?
        init(_ port: Receiver) { self.port = port }
    }

    private struct State {
        var entries: [UInt64: Entry] = [:]
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

    func add(_ port: Receiver) { state.withLock { $0.entries[port.id.number] = Entry(port) } }

    func remove(_ number: UInt64) { _ = state.withLock { $0.entries.removeValue(forKey: number) } }

    func port(_ number: UInt64) -> Receiver? { state.withLock { $0.entries[number]?.port } }

    var count: Int { state.withLock { $0.entries.count } }

    var all: [Receiver] { state.withLock { $0.entries.values.compactMap(\.port) } }
}
