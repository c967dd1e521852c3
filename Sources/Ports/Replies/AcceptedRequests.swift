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
        var monitored = MonitoredRequests()

        var isEmpty: Bool { cancelled.isEmpty && watched.isEmpty && monitored.isEmpty }

        func isCancelled(_ request: ID) -> Bool {
            cancelled[request.asker]?.numbers.contains(request.number) ?? false
        }

        mutating func remove(_ request: ID) {
            cancelled[request.asker]?.numbers.remove(request.number)
            if cancelled[request.asker]?.numbers.isEmpty == true { cancelled[request.asker] = nil }
        }
    }

    private let state = Lock(State())
    /// Whether there is anything to remove, so that most requests end without the lock.
    private let isUsed = Atomic(false)

    /// The most cancellations of one asker that are remembered: they may come before the request, or after its reply.
    private static let mostCancelled = 16_384

    /// Whether no cancellation and no handler waits.
    var isEmpty: Bool { !isUsed.load(ordering: .acquiring) }
    var isWatched: Bool { state.withLock { !$0.watched.isEmpty } }

    private func change<Result>(_ body: (inout sending State) -> sending Result) -> Result {
        state.withLock { state in
            let result = body(&state)
            isUsed.store(!state.isEmpty, ordering: .releasing)
            return result
        }
    }

    func isCancelled(_ request: ID) -> Bool {
        isUsed.load(ordering: .acquiring) && state.withLock { $0.isCancelled(request) }
    }

    /// The asker says that the request needs no reply.
    func cancel(_ request: ID) {
        let (watched, monitor) = change { state in
            var cancelled = state.cancelled.removeValue(forKey: request.asker) ?? Cancelled()
            if cancelled.numbers.insert(request.number).inserted {
                cancelled.order.append(request.number)
                if cancelled.order.count > Self.mostCancelled {
                    cancelled.numbers.remove(cancelled.order.removeFirst())
                }
            }
            state.cancelled[request.asker] = cancelled
            return (state.watched.remove(request), state.monitored.handler(of: request))
        }
        monitor?(.cancelled)
        for handler in watched?.handlers ?? [] { handler() }
    }

    /// Calls the handler when the request is cancelled, or its asker's port is gone.
    func onCancel(_ request: ID, replyPort: SendChannel, _ handler: @escaping @Sendable () -> Void) {
        let isCancelled = change { state in
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
        for watched in change({ $0.watched.removeAll(to: port) }) {
            for handler in watched.handlers { handler() }
        }
    }

    /// The request has its reply, or will have none.
    func remove(_ request: ID, _ end: RequestEnd) {
        guard isUsed.load(ordering: .acquiring), !Fork.isChild else { return }
        // Released after the lock: the handlers may hold the last reference to anything.
        let (_, handler) = change { state in
            state.remove(request)
            return (state.watched.remove(request), state.monitored.remove(request))
        }
        handler?(end)
    }

    func refused(_ number: UInt64, of asker: Incarnation) {
        remove(ID(asker: asker, number: number), .unanswered)
    }

    /// Calls the handler once, at the end of the request. Of very many requests, the oldest are forgotten.
    func onEnd(_ request: ID, _ handler: @escaping MonitoredRequests.Handler) {
        let forgotten = change { $0.monitored.add(request, handler) }
        forgotten?(.forgotten)
    }

    /// The asker's process is dead.
    func forget(_ asker: Incarnation) { _ = change { $0.cancelled.removeValue(forKey: asker) } }
}
