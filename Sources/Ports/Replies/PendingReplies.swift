import RunLoopLocks
import RunLoops

/// The requests of a runtime that wait for their replies.
final class PendingReplies: Sendable {
    private struct State {
        var pending = PendingTable<PendingReply>()
        var lastRequest: UInt64 = 0
        var late = 0
    }

    private let housekeeping: Housekeeping
    private let state = Lock(State())
    /// Makes numbers that other processes cannot guess: a process that knows a request's number can answer the request.
    private let secret = UInt128.random(in: 0 ... .max)

    init(_ housekeeping: Housekeeping) { self.housekeeping = housekeeping }

    /// The replies that came after their requests had ended.
    var lateCount: Int { state.withLockUnlessForked { $0.late } ?? 0 }
    func pendingCount(to port: PortID) -> Int { state.withLock { $0.pending.count(to: port) } }

    func add(_ pending: PendingReply) -> UInt64 {
        state.withLock { state in
            var number: UInt64
            repeat {
                state.lastRequest += 1
                number = unguessable(state.lastRequest)
            } while state.pending[number] != nil
            state.pending.add(pending, number)
            return number
        }
    }

    private func unguessable(_ number: UInt64) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(secret)
        hasher.combine(number)
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }

    /// The asker has stopped waiting.
    func remove(_ request: UInt64) { _ = state.withLock { $0.pending.remove(request) } }

    func arrived(_ reply: ReceivedMessage) {
        let pending = state.withLock { state in
            let pending = state.pending.remove(reply.header.request)
            if pending == nil { state.late += 1 }
            return pending
        }
        pending?.outcome.set(.success(reply))
    }

    /// The server has dropped the request. Only the asked process can report that.
    func unanswered(_ request: UInt64, by incarnation: Incarnation) {
        let pending = state.withLock { state in
            state.pending[request]?.port.incarnation == incarnation ? state.pending.remove(request) : nil
        }
        if let pending { pending.outcome.set(.failure(.unanswered(port: pending.port))) }
    }

    func portBecameInvalid(_ port: PortID) {
        guard pendingCount(to: port) > 0 else { return }
        // Replies that were sent before travel by another connection than the news of the end.
        let timer = ThreadRunLoop.Timer(after: .milliseconds(50)) { _ in self.fail(port) }
        if (try? housekeeping.add(timer)) == nil { fail(port) }
    }

    private func fail(_ port: PortID) {
        let failed = state.withLock { $0.pending.removeAll(to: port) }
        for pending in failed { pending.outcome.set(.failure(.becameInvalid(port: port))) }
    }
}

/// One request that waits for its reply.
final class PendingReply: Request {
    let port: PortID
    let outcome = Promise<Result<ReceivedMessage, PortError>>()

    init(to port: PortID) { self.port = port }
}
