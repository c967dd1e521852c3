import Ports

extension RequestServer {
    /// Sets a handler that also gets the place that the request came from. A handler that gets a `MessagePortRequest`
    /// in its place takes no requests from other machines.
    ///
    ///     struct Lookup: PortRequest, NetworkRequest {
    ///         typealias Reply = String?
    ///         var word: String
    ///     }
    ///
    ///     func handleLookups(of server: RequestServer) {
    ///         server.handle(Lookup.self) { (lookup: Lookup, origin: RequestOrigin) in
    ///             if case .network(let sender) = origin { print("asked by \(sender)") }
    ///             return nil
    ///         }
    ///     }
    ///
    /// - Parameters:
    ///   - type: The requests.
    ///   - lane: Where the requests are handled; nil for the lane that the type names, or that of all other requests.
    ///   - handler: Returns the reply, or throws.
    @_disfavoredOverload
    public func handle<R: PortRequest & NetworkRequest>(
        _ type: R.Type = R.self, in lane: RequestLane? = nil,
        _ handler: @escaping @Sendable (R, RequestOrigin) async throws -> R.Reply
    ) {
        let networkID = R.known.networkID
        add(type, in: lane, takesNetwork: true) { [coder] request, message in
            let origin = RequestOrigin(message, networkID: networkID, isStream: false)
            return try coder.message(await handler(request, origin))
        }
    }
}
