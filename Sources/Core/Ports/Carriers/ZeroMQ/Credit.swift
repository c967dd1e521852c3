/// The bytes that a sender may have in flight to a port with a byte limit. The port returns credit by packets or, inside a
/// runtime, by calls. A ring has no need of it, because its sender sees what was taken.
struct Credit {
    /// The most bytes in flight, beyond one message; 0: any number.
    private let limit: Int
    /// Bytes that were sent and that the port has not taken; counted only with a limit.
    private(set) var inFlight = 0
    /// Whether the last attempt to send had no credit. The socket does not know about credit.
    private(set) var isLacking = false

    init(limit: Int) { self.limit = limit }

    /// Whether there is credit for a message. Without a message in flight there always is.
    mutating func allows(_ size: Int) -> Bool {
        isLacking = limit > 0 && inFlight > 0 && inFlight + size > limit
        return !isLacking
    }

    /// A message was sent.
    mutating func use(_ size: Int) { if limit > 0 { inFlight += size } }

    /// The port has returned credit.
    /// - Parameter bytes: The size of the messages that the port has taken.
    /// - Returns: Whether senders wait for credit.
    mutating func giveBack(_ bytes: Int) -> Bool {
        inFlight = max(0, inFlight - bytes)
        return isLacking
    }

    /// Returns all credit, because notices of returned credit may be lost when a control connection ends. Called at the
    /// end of a control connection to the owner, and when there is a new one. For a moment the port may hold twice its
    /// byte limit.
    mutating func giveBackAll() { inFlight = 0 }
}
