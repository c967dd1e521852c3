import RunLoopLocks
import Synchronization

/// The news about requests of this runtime's servers, and who waits for it: cancellations, their handlers, and monitors.
/// A cancellation names no port, and may come before its request.
final class RequestNotices: Sendable {
    /// Called with the end. Nil says before that nobody waits for the reply any more.
    typealias Monitor = @Sendable (RequestEnd?) -> Void

    private struct Watched: PendingRequest {
        /// The asker's port for the reply.
        let port: PortID
        var handlers: [@Sendable () -> Void]
    }

    private struct State {
        var cancelled = CancelledRequests()
        var watched = PendingTable<RequestID, Watched>()
        /// Each stays until its request ends.
        var monitors: [RequestID: Monitor] = [:]

        var isEmpty: Bool { cancelled.isEmpty && watched.isEmpty && monitors.isEmpty }
    }

    private let state = Lock(State())
    /// Whether there is anything to remove, so that most requests end without the lock.
    private let isUsed = Atomic(false)

    /// Whether no cancellation, no handler and no monitor waits.
    var isEmpty: Bool { !isUsed.load(ordering: .acquiring) }
    var isWatched: Bool { state.withLock { !$0.watched.isEmpty } }

    private func change<Result>(_ body: (inout sending State) -> sending Result) -> Result {
        state.withLock { state in
            let result = body(&state)
            isUsed.store(!state.isEmpty, ordering: .releasing)
            return result
        }
    }

    // MARK: Cancellation

    func isCancelled(_ request: RequestID) -> Bool {
        !isEmpty && state.withLock { $0.cancelled.contains(request) }
    }

    /// The asker needs no reply any more.
    func cancel(_ request: RequestID) {
        let (watched, monitor) = change { state in
            state.cancelled.insert(request)
            return (state.watched.remove(request), state.monitors[request])
        }
        monitor?(nil)
        for handler in watched?.handlers ?? [] { handler() }
    }

    /// Calls the handler when the request is cancelled, or its asker's port is gone.
    func onCancel(_ request: RequestID, replyPort: SendChannel, _ handler: @escaping @Sendable () -> Void) {
        let isCancelled = change { state in
            if state.cancelled.contains(request) { return true }
            var watched = state.watched.remove(request) ?? Watched(port: replyPort.id, handlers: [])
            watched.handlers.append(handler)
            state.watched.add(watched, request)
            return false
        }
        if isCancelled { return handler() }
        replyPort.watch()
        // Perhaps the end of the port was reported before the handler was added.
        if !replyPort.isValid { portBecameInvalid(replyPort.id) }
    }

    func dropHandlers(of request: RequestID) {
        // Released after the lock, because the handlers may hold the last reference to anything.
        if !isEmpty { _ = change { $0.watched.remove(request) } }
    }

    func portBecameInvalid(_ port: PortID) {
        guard !isEmpty else { return }
        for watched in change({ $0.watched.removeAll(to: port) }) {
            for handler in watched.handlers { handler() }
        }
    }

    /// The asker's process is dead.
    func forget(_ asker: Incarnation) { change { $0.cancelled.forget(asker) } }

    /// The last connection to the asker's process has ended.
    func askerIsGone(_ asker: Incarnation) { if !isEmpty { change { $0.cancelled.askerIsGone(asker) } } }

    // MARK: The end

    /// A request that the monitor sees was taken.
    func monitor(_ request: RequestID, _ monitor: @escaping Monitor) { change { $0.monitors[request] = monitor } }

    /// The request has its reply, or will have none.
    func ended(_ request: RequestID, _ end: RequestEnd) {
        guard !isEmpty, !Fork.isChild else { return }
        // Released after the lock, because the handlers may hold the last reference to anything.
        let (_, monitor) = change { state in
            state.cancelled.remove(request)
            return (state.watched.remove(request), state.monitors.removeValue(forKey: request))
        }
        monitor?(end)
    }
}
