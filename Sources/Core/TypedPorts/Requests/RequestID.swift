import Ports
import RunLoopLocks

extension NamedRequest {
    /// The id of the request's messages: the FNV-1a hash of its name, so that clients in other languages can make it.
    static var messageID: UInt32 { known.id }

    /// The request's name, made once.
    static var knownName: String { known.name }

    /// The request's name and id.
    static var known: KnownRequest { KnownRequest.request(of: Self.self) { requestName } }
}

/// The name and the id of a request type.
package struct KnownRequest: Sendable {
    package let name: String
    package let id: UInt32

    init(name: String) { (self.name, id) = (name, Self.hash(name)) }

    /// The id under which the server's port takes such a request from another machine.
    package var networkID: UInt32 { Self.networkID(of: id) }

    static func networkID(of id: UInt32) -> UInt32 { hash("@network", after: id) }

    private static func hash(_ text: String, after start: UInt32 = 2_166_136_261) -> UInt32 {
        text.utf8.reduce(start) { ($0 ^ UInt32($1)) &* 16_777_619 }
    }

    /// The request types used so far. They are kept, because a type's name takes longer to make than a message.
    private static let requests = Lock<[ObjectIdentifier: KnownRequest]>([:])

    fileprivate static func request(of type: Any.Type, _ name: () -> String) -> KnownRequest {
        let key = ObjectIdentifier(type)
        if let request = requests.withLock({ $0[key] }) { return request }
        let name = name()
        let request = KnownRequest(name: name)
        requests.withLock { $0[key] = request }
        return request
    }
}
