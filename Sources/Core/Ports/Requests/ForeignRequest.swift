import RunLoops

/// A request that a message port has taken by another transport, and that has no reply yet.
package struct ForeignRequest: Sendable {
    /// The sender's number for the subject of the request.
    package let id: UInt32
    let name: String
    /// The place that the request came from, in words.
    let origin: String
    package let since: MonotonicInstant
    /// Whether the request may last as long as its asker likes, as a stream does.
    let mayLast: Bool
    let isCancelled: Bool

    package init(
        id: UInt32, name: String, origin: String, since: MonotonicInstant, mayLast: Bool, isCancelled: Bool
    ) {
        (self.id, self.name, self.origin) = (id, name, origin)
        (self.since, self.mayLast, self.isCancelled) = (since, mayLast, isCancelled)
    }
}
