/// The queue limit, the byte limit and the message limit of a port, as ``MachPort`` explains them.
struct PortLimits: Sendable {
    var queue = 1000
    var bytes: Int?
    var message = 64 << 20

    /// The right to a new port, with limits as far as libzmq and the wire format go. Throws when a limit is less than 1.
    func right(_ id: PortID) throws(PortError) -> WireRight {
        for (name, value) in [("queueLimit", queue), ("byteLimit", bytes ?? 1), ("messageLimit", message)]
        where value < 1 { throw .invalidLimit(name: name, value: value) }
        return WireRight(
            id: id, queueLimit: UInt32(min(queue, Int(Int32.max) - 1)),
            limit: min(message, bytes ?? .max, Wire.largestMessage), byteLimit: bytes ?? 0, path: "")
    }
}
