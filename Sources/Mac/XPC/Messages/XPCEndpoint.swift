import Ports
import TypedPorts

/// A listener that other processes can reach without its name: an endpoint travels in messages, and
/// ``XPCSession/init(endpoint:targetQueue:options:cancellationHandler:)`` makes a session with its listener. The
/// corresponding C type is `xpc_endpoint_t`.
public struct XPCEndpoint: Sendable {
    private let right: Result<MachPort.SendRight, XPCRichError>

    init(_ right: MachPort.SendRight) { self.right = .success(right) }

    /// The endpoint of a listener that has no port.
    init(missing error: XPCRichError) { right = .failure(error) }

    func sendRight() throws(XPCRichError) -> MachPort.SendRight { try right.get() }
}

extension XPCEndpoint: Codable {
    /// Adds the listener's right to the message.
    /// - Throws: `EncodingError` outside a message; `XPCRichError` when the listener has no port.
    public func encode(to encoder: any Encoder) throws { try sendRight().encode(to: encoder) }

    /// Takes a listener's right from the message.
    /// - Throws: `DecodingError`.
    public init(from decoder: any Decoder) throws { self.init(try MachPort.SendRight(from: decoder)) }
}

extension XPCEndpoint: Hashable {
    /// Whether both name the same listener.
    public static func == (left: XPCEndpoint, right: XPCEndpoint) -> Bool {
        (try? left.sendRight()) == (try? right.sendRight())
    }

    /// Hashes the identity of the listener.
    public func hash(into hasher: inout Hasher) { hasher.combine(try? sendRight()) }
}

extension XPCEndpoint: CustomStringConvertible, CustomDebugStringConvertible {
    /// The listener's port, or the reason why there is none.
    public var description: String {
        switch right {
        case .success(let right): right.description
        case .failure(let error): error.description
        }
    }

    /// As ``description``.
    public var debugDescription: String { description }
}
