/// The state of a port's queue.
public struct PortStatistics: Sendable, Hashable, Codable {
    /// The messages taken from the port since the port was made.
    public let received: Int
    /// The messages that were sent and are not taken yet. For a killed sender the last known count is used. Messages
    /// that were lost with the sender are counted until the queue has been empty for a second.
    public let waiting: Int

    package init(received: Int, waiting: Int) { (self.received, self.waiting) = (received, waiting) }
}
