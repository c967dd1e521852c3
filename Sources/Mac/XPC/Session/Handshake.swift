import Ports
import TypedPorts

/// A client's request for a session.
struct Hello: Codable {
    /// The layout of the handshake and of the session's messages.
    static let currentVersion = 2

    var version = currentVersion
    /// Where the client takes the session's messages.
    var session: MachPort.SendRight
}

/// A listener's reply to ``Hello``.
struct Welcome: Codable {
    /// Where the listener takes the session's messages; nil for a refusal.
    var session: MachPort.SendRight?
    /// The reason for a refusal.
    var reason: String?
    /// Whether another attempt may succeed.
    var canRetry = false
}

extension Hello {
    func message() throws -> MachPort.Message {
        try CBORCoder().message(id: SessionMessage.hello.rawValue, self)
    }
}

extension Welcome {
    init(refusal: XPCRichError) { self.init(reason: refusal.text, canRetry: refusal.canRetry) }

    /// The session's port.
    /// - Throws: `XPCRichError` for a refusal.
    func port(of service: String) throws(XPCRichError) -> RemoteMessagePort {
        guard let session else {
            throw XPCRichError("\(service) refused the session: \(reason ?? "no reason")", canRetry: canRetry)
        }
        return RemoteMessagePort(session)
    }
}
