/// The room in bytes that a port with a byte limit has granted, and its senders here have not used.
struct SendCredit {
    /// The most bytes in flight, beyond one message; 0: any number.
    let byteLimit: Int
    /// Bytes that were sent and that the port has not taken; counted only with a byte limit.
    private(set) var inFlight = 0
    /// Whether the last attempt to send had no credit. The socket knows nothing of that.
    private(set) var isLacking = false

    init(byteLimit: Int) { self.byteLimit = byteLimit }

    /// Whether a message may be sent. Without a message in flight it always may.
    mutating func allows(_ size: Int) -> Bool {
        isLacking = byteLimit > 0 && inFlight > 0 && inFlight + size > byteLimit
        return !isLacking
    }

    mutating func spend(_ size: Int) { if byteLimit > 0 { inFlight += size } }

    /// The port has taken so many bytes.
    mutating func restore(_ bytes: Int) { inFlight = max(0, inFlight - bytes) }
}
