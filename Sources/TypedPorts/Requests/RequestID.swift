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

    /// The request types used so far. They are kept, because a type's name takes longer to make than a message.
    private static let requests = Lock<[ObjectIdentifier: KnownRequest]>([:])

    fileprivate static func request(of type: Any.Type, _ name: () -> String) -> KnownRequest {
        let key = ObjectIdentifier(type)
        if let request = requests.withLock({ $0[key] }) { return request }
        let name = name()
        let id = name.utf8.reduce(2_166_136_261 as UInt32) { ($0 ^ UInt32($1)) &* 16_777_619 }
        let request = KnownRequest(name: name, id: id)
        requests.withLock { $0[key] = request }
        return request
    }
}
