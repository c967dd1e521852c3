/// What those who look at a port are told of the requests with an id. See ``LocalMessagePort/setKind(_:ofRequests:)``.
public struct RequestKind: Sendable, Hashable {
    /// What people call such a request. `TypedPorts` sets the name of its type.
    public var name: String
    /// Whether such a request may wait for its reply as long as anybody likes, as a stream does: it is never slow.
    public var mayLast: Bool

    /// Makes a kind.
    public init(name: String, mayLast: Bool = false) { (self.name, self.mayLast) = (name, mayLast) }
}
