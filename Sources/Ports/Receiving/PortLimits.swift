/// The queue limit, the byte limit and the message limit of a port.
struct PortLimits: Sendable {
    /// The most messages of one sender that wait.
    private(set) var queue = 1000
    /// The most bytes of one sender's messages that wait; nil for any number.
    private(set) var bytes: Int?
    /// The largest message in bytes.
    private(set) var message = 64 << 20

    /// The limits as far as libzmq and the wire format go. Throws when a limit is less than 1.
    func checked() throws(PortError) -> PortLimits {
        for (name, value) in [("queueLimit", queue), ("byteLimit", bytes ?? 1), ("messageLimit", message)]
        where value < 1 { throw .invalidLimit(name: name, value: value) }
        var limits = self
        limits.queue = min(queue, Int(Int32.max) - 1)
        limits.message = min(message, bytes ?? .max, Wire.largestMessage)
        return limits
    }
}
