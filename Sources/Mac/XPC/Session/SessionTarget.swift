import Ports

/// The listener that a client's session goes to.
enum SessionTarget: Sendable {
    case service(String, PortNameServer)
    case endpoint(XPCEndpoint)

    /// The listener's name; nil for an endpoint.
    var service: String? { if case .service(let name, _) = self { name } else { nil } }

    /// The listener in texts.
    var name: String {
        switch self {
        case .service(let name, _): "the service “\(name)”"
        case .endpoint(let endpoint): "the listener \(endpoint)"
        }
    }

    /// Finds the listener's port. Blocks until its owner answers, at most five seconds.
    func port() throws -> RemoteMessagePort {
        switch self {
        case .service(let name, let nameServer): try RemoteMessagePort(name: name, nameServer: nameServer)
        case .endpoint(let endpoint): RemoteMessagePort(try endpoint.sendRight())
        }
    }
}
