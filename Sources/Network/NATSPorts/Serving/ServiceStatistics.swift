import RunLoopLocks
import TypedPorts

/// The counts of a server's requests, as the service API of NATS tells them.
final class ServiceStatistics: Sendable {
    struct Counts: Sendable {
        var requests = 0
        var errors = 0
        var lastError = ""
        /// In handlers, and on the way to them.
        var time = Duration.zero
    }

    private let counts = Lock<[UInt32: Counts]>([:])

    func note(_ request: KnownRequest, since start: ContinuousClock.Instant, _ error: (any Error)?) {
        let time = ContinuousClock.now - start
        counts.withLock { counts in
            var own = counts[request.id] ?? Counts()
            own.requests += 1
            own.time += time
            if let error {
                own.errors += 1
                own.lastError = String(describing: error)
            }
            counts[request.id] = own
        }
    }

    func counts(of request: KnownRequest) -> Counts { counts.withLock { $0[request.id] } ?? Counts() }
}
