/// The requests that a message port has taken, as the port sees them.
protocol TakenRequests: AnyObject, Sendable {
    /// Whether all have ended.
    var isEmpty: Bool { get }
    /// Whether a request was taken, and has not ended.
    func has(_ request: RequestID) -> Bool
    /// Notes whether an asker reads nothing. Then nobody waits for the replies to it.
    func note(_ asker: Incarnation, isSilent: Bool)
    /// What such requests are called; nil when nobody has said.
    func name(ofRequests id: UInt32) -> String?
}

/// A request, as its asker names it.
struct RequestID: Hashable, Sendable {
    let asker: Incarnation
    let number: UInt64
}
