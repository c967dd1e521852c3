/// The queue limit, the byte limit and the message limit of a port, as ``MachPort`` explains them.
struct PortLimits: Sendable {
    var queue: Int
    var bytes: Int?
    var message: Int

    init(queue: Int = 1000, bytes: Int? = nil, message: Int = 64 << 20) {
        (self.queue, self.bytes, self.message) = (queue, bytes, message)
    }

    /// The limits of the port of a right. No message may be larger than the byte limit.
    init(of right: WireRight) {
        self.init(
            queue: Int(right.queueLimit), bytes: right.byteLimit > 0 ? right.byteLimit : nil, message: right.limit)
    }

    /// The right to a new port.
    /// - Throws: ``PortError``: `invalidLimit` for a limit below 1, or beyond the limits of libzmq and the wire format.
    func right(_ id: PortID) throws(PortError) -> WireRight {
        try PortError.check("queueLimit", queue, in: 1...Int(Int32.max) - 1)
        try PortError.check("byteLimit", bytes ?? 1, in: 1...Int.max)
        try PortError.check("messageLimit", message, in: 1...Wire.largestMessage)
        return WireRight(
            id: id, queueLimit: UInt32(queue), limit: min(message, bytes ?? .max), byteLimit: bytes ?? 0, path: "")
    }
}
