import DequeModule
import RunLoopLocks
import Synchronization

/// Which of the requests that this runtime's servers have, or will take from their queues, need no reply any more.
final class AcceptedRequests: Sendable {
    struct ID: Hashable {
        let asker: Incarnation
        let number: UInt64
    }

    private struct Watched: Request {
        /// The asker's port for the reply.
        let port: PortID
        var handlers: [@Sendable () -> Void]
    }

    private struct State {
        var cancelled: Set<ID> = []
        /// In the order of their arrival, also those that are cancelled no more.
        var order: Deque<ID> = []
        var watched = PendingTable<ID, Watched>()
    }

    private let state = Lock(State())
    /// Whether there has been anything to remove, so that most requests end without the lock.
    private let isUsed = Atomic(false)

    /// A cancellation may come before the request, or after its reply. So many wait for their requests.
    private static let mostCancelled = 16_384

    /// Whether no cancellation and no handler waits.
    var isEmpty: Bool { state.withLock { $0.cancelled.isEmpty && $0.watched.isEmpty } }
    var isWatched: Bool { state.withLock { !$0.watched.isEmpty } }

    func isCancelled(_ request: ID) -> Bool {
        isUsed.load(ordering: .acquiring) && state.withLock { $0.cancelled.contains(request) }
    }

    /// The asker says that the request needs no reply.
    func cancel(_ request: ID) {
        isUsed.store(true, ordering: .releasing)
        let watched = state.withLock { state in
            if state.cancelled.insert(request).inserted {
                state.order.append(request)
                if state.order.count > Self.mostCancelled { state.cancelled.remove(state.order.removeFirst()) }
            }
            return state.watched.remove(request)
        }
        for handler in watched?.handlers ?? [] { handler() }
    }

    /// Calls the handler when the request is cancelled, or its asker's port is gone.
    func onCancel(_ request: ID, replyPort: SendChannel, _ handler: @escaping @Sendable () -> Void) {
        isUsed.store(true, ordering: .releasing)
        let isCancelled = state.withLock { state in
            if state.cancelled.contains(request) { return true }
            var watched = state.watched.remove(request) ?? Watched(port: replyPort.id, handlers: [])
            watched.handlers.append(handler)
            state.watched.add(watched, request)
            return false
        }
        if isCancelled { return handler() }
        replyPort.watch()
        // The end of the port may have been reported before the handler was there.
        if !replyPort.isValid { portBecameInvalid(replyPort.id) }
    }

    func portBecameInvalid(_ port: PortID) {
        guard isUsed.load(ordering: .acquiring) else { return }
        for watched in state.withLock({ $0.watched.removeAll(to: port) }) {
            for handler in watched.handlers { handler() }
        }
    }

    /// The request has its reply, or will have none.
    func remove(_ request: ID) {
        guard isUsed.load(ordering: .acquiring) else { return }
        // Released after the lock: the handlers may hold the last reference to anything.
        _ = state.withLock { state in
            state.cancelled.remove(request)
            return state.watched.remove(request)
        }
    }
}
