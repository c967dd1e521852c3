import Ports
import RunLoopLocks

extension NamedRequest {
    /// The id of the request's messages: the FNV-1a hash of its name, so that clients in other languages can make it.
    static var messageID: UInt32 { RequestIDs.id(of: Self.self) { requestName } }
}

/// The ids of all request types that were used: a type's name takes longer to make than a message.
private enum RequestIDs {
    private static let known = Lock<[ObjectIdentifier: UInt32]>([:])

    static func id(of type: Any.Type, _ name: () -> String) -> UInt32 {
        let key = ObjectIdentifier(type)
        if let id = known.withLock({ $0[key] }) { return id }
        let id = name().utf8.reduce(2_166_136_261 as UInt32) { ($0 ^ UInt32($1)) &* 16_777_619 }
        known.withLock { $0[key] = id }
        return id
    }
}
