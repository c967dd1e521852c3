import RunLoopLocks
import RunLoops

/// The calls of `serve` of a port: their lanes, and the messages in their handlers that want no reply. The kinds of the
/// port's requests lead to the lanes.
final class ServeCalls: Sendable {
    /// A message that wants no reply, in a handler.
    struct OneWay: Sendable {
        let message: ReceivedMessage
        let since = MonotonicInstant.now
    }

    private struct State {
        var kinds: [UInt32: RequestKind] = [:]
        /// By the numbers of their handlers.
        var oneWay: [Int: OneWay] = [:]
        var oneWayCount = 0
        /// The lanes of each call.
        var lanes: [RequestLanes] = []
        /// The number of requests that earlier calls have refused, by the names of the lanes.
        var refused: [String: Int] = [:]
        /// Whether the port takes no more requests.
        var isFinishing = false
        var foreign: [@Sendable () -> [ForeignRequest]] = []
    }

    private let state = Lock(State())

    /// By the messages' ids.
    var kinds: [UInt32: RequestKind] { state.withLock { $0.kinds } }
    func kind(of subject: UInt32) -> RequestKind? { state.withLock { $0.kinds[subject] } }

    func setKind(_ kind: RequestKind, of subject: UInt32) {
        let lanes = state.withLock { state in
            state.kinds[subject] = kind
            return state.lanes
        }
        if kind.lane != nil { for lanes in lanes { lanes.takeAhead() } }
    }

    var lanes: [RequestLanes] { state.withLock { $0.lanes } }

    func add(_ lanes: RequestLanes) {
        let (hasLanes, isFinishing) = state.withLock { state in
            state.lanes.append(lanes)
            return (state.kinds.values.contains { $0.lane != nil }, state.isFinishing)
        }
        if hasLanes { lanes.takeAhead() }
        if isFinishing { lanes.finish() }
    }

    /// The port takes no more requests, and refuses the requests that wait for a handler.
    func finish() {
        let lanes = state.withLock { state in
            state.isFinishing = true
            return state.lanes
        }
        for lanes in lanes { lanes.finish() }
    }

    func remove(_ lanes: RequestLanes) {
        let counters = lanes.counters
        state.withLock { state in
            state.lanes.removeAll { $0 === lanes }
            for (name, lane) in counters where lane.refused > 0 { state.refused[name, default: 0] += lane.refused }
        }
    }

    /// By the names of the lanes.
    var laneCounters: [String: RequestLane.Counters] {
        let (lanes, refused) = state.withLock { ($0.lanes, $0.refused) }
        let former = refused.mapValues { RequestLane.Counters(refused: $0) }
        return lanes.reduce(into: former) { $0.merge($1.counters, uniquingKeysWith: +) }
    }

    /// The requests in progress that have come by other transports.
    var foreignRequests: [ForeignRequest] { state.withLock { $0.foreign }.flatMap { $0() } }

    func addTransport(_ requests: @escaping @Sendable () -> [ForeignRequest]) {
        state.withLock { $0.foreign.append(requests) }
    }

    var oneWay: [OneWay] { state.withLock { Array($0.oneWay.values) } }

    /// - Returns: The number for ``endOneWay(_:)``.
    func beginOneWay(_ message: ReceivedMessage) -> Int {
        state.withLock { state in
            state.oneWayCount += 1
            state.oneWay[state.oneWayCount] = OneWay(message: message)
            return state.oneWayCount
        }
    }

    func endOneWay(_ number: Int) {
        // Released after the lock.
        _ = state.withLock { $0.oneWay.removeValue(forKey: number) }
    }
}
