import RunLoopLocks
import RunLoops

// Requests that get no reply.

extension PendingReplies {
    /// The server has dropped the request. Only the asked process can report that.
    func unanswered(_ request: UInt64, by incarnation: Incarnation) {
        let pending = state.withLock { state in
            state.pending[request]?.port.incarnation == incarnation ? state.pending.remove(request) : nil
        }
        if let pending { pending.outcome.set(.failure(.unanswered(port: pending.port))) }
    }

    func portBecameInvalid(_ port: PortID) {
        guard pendingCount(to: port) > 0 else { return }
        do throws(PortError) {
            // Replies that were sent before travel by another connection than the news of the end.
            try housekeeping.add(ThreadRunLoop.Timer(after: .milliseconds(50)) { _ in self.fail(port) })
        } catch {
            fail(port)
        }
    }

    private func fail(_ port: PortID) {
        let failed = state.withLock { $0.pending.removeAll(to: port) }
        for pending in failed { pending.outcome.set(.failure(.becameInvalid(port: port))) }
    }
}
