/// The owner's description of the requests with an id. See ``LocalMessagePort/setKind(_:ofRequests:)``.
public struct RequestKind: Sendable, Hashable {
    /// The name of such a request in texts. `TypedPorts` sets the name of its type.
    public var name: String
    /// Whether such a request may wait for its reply without limit, as a stream does. Then it never counts as slow.
    public var mayLast: Bool
    /// The lane in which `serve` handles such a request; nil for the lane of all others.
    public var lane: RequestLane?
    /// The id whose places in a lane without a name such requests take, if it is not their own.
    package var placesOf: UInt32?

    /// Makes a kind.
    public init(name: String, mayLast: Bool = false, lane: RequestLane? = nil) {
        (self.name, self.mayLast, self.lane) = (name, mayLast, lane)
    }
}
