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

    /// The cancelled requests of one asker.
    private struct Cancelled {
        var numbers: Set<UInt64> = []
        /// In the order of their arrival, also those whose requests have ended.
        var order: Deque<UInt64> = []
    }

    private struct State {
        var cancelled: [Incarnation: Cancelled] = [:]
        var watched = PendingTable<ID, Watched>()
        /// What to call at the end of monitored requests.
        var ends: [ID: @Sendable (_ isAnswered: Bool) -> Void] = [:]
        /// The same in their order, also those that have ended.
        var endOrder: Deque<ID> = []

        func isCancelled(_ request: ID) -> Bool {
            cancelled[request.asker]?.numbers.contains(request.number) ?? false
        }

        mutating func remove(_ request: ID) {
            cancelled[request.asker]?.numbers.remove(request.number)
            if cancelled[request.asker]?.numbers.isEmpty == true { cancelled[request.asker] = nil }
        }
    }

    private let state = Lock(State())
    /// Whether there has been anything to remove, so that most requests end without the lock.
    private let isUsed = Atomic(false)

    /// The most cancellations of one asker that are remembered: they may come before the request, or after its reply.
    private static let mostCancelled = 16_384
    private static let mostEnds = 4096

    /// Whether no cancellation and no handler waits.
    var isEmpty: Bool { state.withLock { $0.cancelled.isEmpty && $0.watched.isEmpty } }
    var isWatched: Bool { state.withLock { !$0.watched.isEmpty } }

    func isCancelled(_ request: ID) -> Bool {
        isUsed.load(ordering: .acquiring) && state.withLock { $0.isCancelled(request) }
    }

    /// The asker says that the request needs no reply.
    func cancel(_ request: ID) {
        isUsed.store(true, ordering: .releasing)
        let watched = state.withLock { state in
            var cancelled = state.cancelled.removeValue(forKey: request.asker) ?? Cancelled()
            if cancelled.numbers.insert(request.number).inserted {
                cancelled.order.append(request.number)
                if cancelled.order.count > Self.mostCancelled {
                    cancelled.numbers.remove(cancelled.order.removeFirst())
                }
            }
            state.cancelled[request.asker] = cancelled
            return state.watched.remove(request)
        }
        for handler in watched?.handlers ?? [] { handler() }
    }

    /// Calls the handler when the request is cancelled, or its asker's port is gone.
    func onCancel(_ request: ID, replyPort: SendChannel, _ handler: @escaping @Sendable () -> Void) {
        isUsed.store(true, ordering: .releasing)
        let isCancelled = state.withLock { state in
            if state.isCancelled(request) { return true }
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
    func remove(_ request: ID, isAnswered: Bool) {
        guard isUsed.load(ordering: .acquiring) else { return }
        // Released after the lock: the handlers may hold the last reference to anything.
        let (_, end) = state.withLock { state in
            state.remove(request)
            return (state.watched.remove(request), state.ends.removeValue(forKey: request))
        }
        end?(isAnswered)
    }

    /// Calls the handler when the request has its reply, or is dropped without. Of very many, the oldest are forgotten.
    func onEnd(_ request: ID, _ handler: @escaping @Sendable (_ isAnswered: Bool) -> Void) {
        isUsed.store(true, ordering: .releasing)
        // Released after the lock.
        _ = state.withLock { state in
            state.endOrder.append(request)
            let former = state.ends.updateValue(handler, forKey: request)
            let oldest = state.endOrder.count > Self.mostEnds ? state.endOrder.removeFirst() : nil
            return (former, oldest.flatMap { state.ends.removeValue(forKey: $0) })
        }
    }

    /// The asker's process is dead.
    func forget(_ asker: Incarnation) { _ = state.withLock { $0.cancelled.removeValue(forKey: asker) } }
}
