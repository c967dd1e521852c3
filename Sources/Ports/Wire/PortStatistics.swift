/// The state of a port's queue. ``MachPort/Statistics`` is its name in the API.
public struct PortStatistics: Sendable, Hashable {
    /// How many messages were taken from the port since it was made.
    public let received: Int
    /// How many messages were sent and are not taken yet. What a killed sender had sent is counted as far as it was
    /// asked before; what was lost with it, until the queue was seen to be empty for a second.
    public let waiting: Int
}
