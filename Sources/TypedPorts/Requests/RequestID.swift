import Ports
import RunLoopLocks

extension NamedRequest {
    /// The id of the request's messages: the FNV-1a hash of its name, so that clients in other languages can make it.
    static var messageID: UInt32 { known.id }

    /// The request's name, made once.
    static var knownName: String { known.name }

    private static var known: KnownRequests.Entry { KnownRequests.entry(of: Self.self) { requestName } }
}

/// The names and ids of all request types that were used: a type's name takes longer to make than a message.
private enum KnownRequests {
    struct Entry {
        let name: String
        let id: UInt32
    }

    private static let entries = Lock<[ObjectIdentifier: Entry]>([:])

    static func entry(of type: Any.Type, _ name: () -> String) -> Entry {
        let key = ObjectIdentifier(type)
        if let entry = entries.withLock({ $0[key] }) { return entry }
        let name = name()
        let id = name.utf8.reduce(2_166_136_261 as UInt32) { ($0 ^ UInt32($1)) &* 16_777_619 }
        let entry = Entry(name: name, id: id)
        entries.withLock { $0[key] = entry }
        return entry
    }
}
