/// What a port, or several, have taken from their queues since they were made.
struct PortTotals {
    var taken = 0
    var malformed = 0

    static func += (left: inout PortTotals, right: PortTotals) {
        left.taken += right.taken
        left.malformed += right.malformed
    }
}

extension Receiver {
    var totals: PortTotals { state.withLock { PortTotals(taken: $0.counts.taken, malformed: $0.malformedCount) } }

    /// The registered names of the port.
    var registeredNames: [String] { state.withLock { $0.names.map(\.name) } }
}
