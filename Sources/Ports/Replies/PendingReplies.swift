import RunLoopLocks
import RunLoops

/// The requests of a runtime that wait for their replies.
final class PendingReplies: Sendable {
    private struct State {
        var pending = PendingTable<PendingReply>()
        var late = 0
    }

    private let housekeeping: Housekeeping
    private let statistics: StatisticsCollector
    private let state = Lock(State())

    /// The longest wait for replies that were sent before their port's end: as long as a reply may wait for room.
    private static let longestTransit = Duration.seconds(10)

    init(_ housekeeping: Housekeeping, _ statistics: StatisticsCollector) {
        self.housekeeping = housekeeping
        self.statistics = statistics
    }

    /// The replies that came after their requests had ended.
    var lateCount: Int { state.withLockUnlessForked { $0.late } ?? 0 }
    func pendingCount(to port: PortID) -> Int { state.withLock { $0.pending.count(to: port) } }

    func add(_ pending: PendingReply) -> UInt64 {
        // A process that could guess a request's number could answer the request.
        let random = UInt64.random(in: 0 ... .max)
        return state.withLock { state in
            var number = random
            while state.pending[number] != nil { number &+= 1 }
            state.pending.add(pending, number)
            return number
        }
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
        // What a dead process has sent is here.
        let patience = statistics.control.isAlive(port.incarnation) ? Self.longestTransit : .zero
        let deadline = MonotonicInstant.now + patience
        if (try? housekeeping.perform { self.settle(port, before: deadline) }) == nil { fail(port) }
    }

    /// Fails the port's requests when no reply is on its way: replies and the news of the end travel apart.
    private func settle(_ port: PortID, _ rest: [UInt64]? = nil, before deadline: MonotonicInstant) {
        let replyPorts = rest ?? Array(Set(state.withLock { $0.pending.all(to: port).map(\.replyPort) }))
        guard let first = replyPorts.first else {
            // What was taken last may not have been handled.
            return housekeeping.perform(after: .milliseconds(50)) { self.fail(port) }
        }
        statistics.collect(for: first) { found in
            guard let found, found.waiting > 0, !deadline.hasPassed else {
                return self.settle(port, Array(replyPorts.dropFirst()), before: deadline)
            }
            self.housekeeping.perform(after: .milliseconds(50)) { self.settle(port, before: deadline) }
        }
    }

    private func fail(_ port: PortID) {
        let failed = state.withLock { $0.pending.removeAll(to: port) }
        for pending in failed { pending.outcome.set(.failure(.becameInvalid(port: port))) }
    }
}

/// One request that waits for its reply.
struct PendingReply: Request {
    let port: PortID
    /// The number of the port for the reply.
    let replyPort: UInt64
    let outcome = Promise<Result<ReceivedMessage, PortError>>()
}
