/// The queue limit, the byte limit and the message limit of a port, as ``MachPort`` explains them.
struct PortLimits: Sendable {
    var queue = 1000
    var bytes: Int?
    var message = 64 << 20

    /// The right to a new port. Throws when a limit is below 1, or beyond what libzmq and the wire format allow.
    func right(_ id: PortID) throws(PortError) -> WireRight {
        try PortError.check("queueLimit", queue, in: 1...Int(Int32.max) - 1)
        try PortError.check("byteLimit", bytes ?? 1, in: 1...Int.max)
        try PortError.check("messageLimit", message, in: 1...Wire.largestMessage)
        return WireRight(
            id: id, queueLimit: UInt32(queue), limit: min(message, bytes ?? .max), byteLimit: bytes ?? 0, path: "")
    }
}
