/// What a port, or several, have taken from their queues since they were made.
struct PortTotals {
    var taken = 0
    var malformed = 0

    static func += (left: inout PortTotals, right: PortTotals) {
        left.taken += right.taken
        left.malformed += right.malformed
    }
}
