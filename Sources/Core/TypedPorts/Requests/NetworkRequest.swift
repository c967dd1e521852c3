import Ports

/// A request that may come from another machine, or go to one.
///
///     struct Lookup: PortRequest, NetworkRequest {
///         typealias Reply = String?
///         var word: String
///     }
///
/// Ports are reached by processes of the same user alone. A network is no such peer. So a type of request leaves the
/// machine, and is taken from outside, only when it is marked by this protocol. Its values travel without rights,
/// descriptors and shared memory.
public protocol NetworkRequest: NamedRequest {}

/// Why a request cannot leave the machine.
public enum NetworkRequestError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The request's type is not marked as a ``NetworkRequest``.
    case notMarked(request: String)
    /// The value contains something that exists on this machine alone: a right, a descriptor or shared memory.
    case staysHere(what: String)

    /// A sentence with the remedy.
    public var description: String {
        switch self {
        case .notMarked(let request):
            "\(request) may not leave this machine: if it may come from any machine, declare it a NetworkRequest"
        case .staysHere(let what):
            "\(what) exists only on this machine, and cannot go to another: send bytes, or a name, in its place"
        }
    }
}

/// The sender of a request from another machine. The network says nothing else that could be trusted: who may send is
/// decided by the network's own users and permissions.
public struct NetworkSender: Sendable, Hashable, CustomStringConvertible {
    /// The protocol by which the request came, such as `nats`.
    public let networkProtocol: String
    /// The server of the network from which the request came to this process, as a URL without passwords.
    public let relay: String

    package init(networkProtocol: String, relay: String) {
        (self.networkProtocol, self.relay) = (networkProtocol, relay)
    }

    /// The relay.
    public var description: String { "another machine by \(relay)" }

    /// The form in which the sender goes to the server's port.
    package var bytes: [UInt8] { Array("\(networkProtocol)\n\(relay)".utf8) }

    fileprivate init(bytes: [UInt8]) {
        let parts = String(decoding: bytes, as: UTF8.self).split(
            separator: "\n", maxSplits: 1, omittingEmptySubsequences: false)
        self.init(networkProtocol: String(parts[0]), relay: parts.count > 1 ? String(parts[1]) : "")
    }
}

/// The place that a request came from, for a handler that takes requests from this machine and from others.
public enum RequestOrigin: Sendable {
    /// A process of this machine, or this process itself.
    case local(MessagePortRequest)
    /// Another machine, or a process of this one that asked by the network.
    case network(NetworkSender)

    /// - Parameter isStream: Whether the port for the elements is behind the sender.
    init(_ request: MessagePortRequest, networkID: UInt32, isStream: Bool) {
        self = request.id == networkID ? .network(request.networkSender(isStream ? 2 : 1)) : .local(request)
    }
}

extension MessagePortRequest {
    /// The protocol by which a request came from another machine.
    /// - Parameter behindContext: The number of components from the sender on.
    package func networkProtocol(_ behindContext: Int) -> String { networkSender(behindContext).networkProtocol }

    fileprivate func networkSender(_ behindContext: Int) -> NetworkSender {
        let index = message.componentCount - behindContext
        let bytes = message.withBytes(ofComponent: index) { $0.withUnsafeBytes { Array($0) } }
        return NetworkSender(bytes: bytes ?? [])
    }
}
