import RunLoopLocks
import Synchronization

/// The messages that a port, or several, have taken from their queues since they were made.
struct PortTotals {
    var taken = 0
    var malformed = 0

    static func += (left: inout PortTotals, right: PortTotals) {
        left.taken += right.taken
        left.malformed += right.malformed
    }
}

/// The ports of a runtime by their numbers.
final class PortTable: Sendable {
    private struct State {
        var entries: [UInt64: Weak<Receiver>] = [:]
        /// The totals of the ports that were removed.
        var former = PortTotals()
        /// What the former owners of ports still work on.
        var left: [UInt64: LeftRequests] = [:]
    }

    /// The requests of a port that has left this runtime. They go with the last one.
    private struct LeftRequests {
        weak var requests: (any TakenRequests)?
    }

    private let state = Lock(State())
    private let lastNumber = Atomic<UInt64>(0)

    /// A number that no port of the runtime has had.
    func nextNumber() -> UInt64 { lastNumber.add(1, ordering: .relaxed).newValue }

    func add(_ port: Receiver) { state.withLock { $0.entries[port.id.number] = Weak(port) } }
    func port(_ number: UInt64) -> Receiver? { state.withLock { $0.entries[number]?.object } }
    var count: Int { state.withLock { $0.entries.count } }
    var all: [Receiver] { state.withLock { $0.entries.values.compactMap(\.object) } }

    /// Removes a port that takes no more messages.
    func remove(_ port: Receiver) {
        let totals = port.intake.totals
        state.withLock { state in
            if state.entries.removeValue(forKey: port.id.number) != nil { state.former += totals }
        }
    }

    /// The requests of a port that has left this runtime.
    func requests(ofFormer number: UInt64) -> (any TakenRequests)? { state.withLock { $0.left[number]?.requests } }

    /// Keeps track of the requests of a port that leaves this runtime.
    func keep(_ requests: any TakenRequests, of number: UInt64) {
        state.withLock { state in
            state.left = state.left.filter { $0.value.requests != nil }
            state.left[number] = LeftRequests(requests: requests)
        }
    }

    /// The totals of all ports, including removed ones.
    var totals: PortTotals {
        // Both are read under one lock, so that a port that another thread removes meanwhile counts once.
        let (former, ports) = state.withLock { ($0.former, $0.entries.values.compactMap(\.object)) }
        return ports.reduce(into: former) { $0 += $1.intake.totals }
    }
}

/// The parts of a runtime that its ports share.
struct ReceiveContext: Sendable {
    let channels: ChannelTable
    let ports: PortTable
    let registry: Registry

    var control: ControlConnectionTable { channels.control }
    var housekeeping: Housekeeping { control.housekeeping }
}
