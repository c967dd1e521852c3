import Synchronization

/// The requests of a loop that are for an object, by object.
final class OwnedRequests: Sendable {
    private struct Entry {
        weak var request: ThreadRunLoop.PerformRequest?
        let identity: ObjectIdentifier
    }

    /// An object may have been released meanwhile, and another may have its address.
    private let entries = Mutex<[ObjectIdentifier: [Entry]]>([:])

    func insert(_ request: ThreadRunLoop.PerformRequest, of owner: any AnyObject & Sendable) {
        let entry = Entry(request: request, identity: ObjectIdentifier(request))
        entries.withLock { $0[ObjectIdentifier(owner), default: []].append(entry) }
    }

    func remove(_ request: ThreadRunLoop.PerformRequest, of owner: ObjectIdentifier) {
        entries.withLock { entries in
            entries[owner]?.removeAll { $0.identity == ObjectIdentifier(request) }
            if entries[owner]?.isEmpty == true { entries[owner] = nil }
        }
    }

    func all(of owner: any AnyObject & Sendable) -> [ThreadRunLoop.PerformRequest] {
        let requests = entries.withLock { $0[ObjectIdentifier(owner)]?.compactMap(\.request) ?? [] }
        return requests.filter { $0.isOwned(by: owner) }
    }
}
