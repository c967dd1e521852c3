import RunLoopLocks
import Synchronization

/// The cancelled, watched and monitored requests among those that this runtime's servers have, or will take from their
/// queues.
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
        var cancelled = CancelledRequests()
        var watched = PendingTable<ID, Watched>()
        var monitored = MonitoredRequests()

        var isEmpty: Bool { cancelled.isEmpty && watched.isEmpty && monitored.isEmpty }
    }

    private let state = Lock(State())
    /// Whether there is anything to remove, so that most requests end without the lock.
    private let isUsed = Atomic(false)

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
        isUsed.load(ordering: .acquiring) && state.withLock { $0.cancelled.contains(request) }
    }

    /// The asker needs no reply any more.
    func cancel(_ request: ID) {
        let (watched, monitor) = change { state in
            state.cancelled.insert(request)
            return (state.watched.remove(request), state.monitored.handler(of: request))
        }
        monitor?(.cancelled)
        for handler in watched?.handlers ?? [] { handler() }
    }

    /// Calls the handler when the request is cancelled, or its asker's port is gone.
    func onCancel(_ request: ID, replyPort: SendChannel, _ handler: @escaping @Sendable () -> Void) {
        let isCancelled = change { state in
            if state.cancelled.contains(request) { return true }
            var watched = state.watched.remove(request) ?? Watched(port: replyPort.id, handlers: [])
            watched.handlers.append(handler)
            state.watched.add(watched, request)
            return false
        }
        if isCancelled { return handler() }
        replyPort.watch()
        // The end of the port may have been reported before the handler was added.
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
        // Released after the lock, because the handlers may hold the last reference to anything.
        let (_, handler) = change { state in
            state.cancelled.remove(request)
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
    func forget(_ asker: Incarnation) { change { $0.cancelled.forget(asker) } }

    /// The last connection to the asker's process has ended.
    func askerIsGone(_ asker: Incarnation) { if !isEmpty { change { $0.cancelled.askerIsGone(asker) } } }
}
