import RunLoopLocks
import RunLoops

/// The requests of a port that were taken and wait for their replies. The port can end after the last, and its owner
/// can report them.
final class TakenRequests: Sendable {
    struct Entry: Sendable {
        /// The asker's port for the reply.
        let asker: PortID
        let number: UInt64
        /// The message's id.
        let subject: UInt32
        let since = MonotonicInstant.now
        /// Whether the reply was made: it waits for room at the asker's port.
        var isReplying = false
    }

    /// A message that wants no reply, in a handler of `serve`.
    struct OneWay: Sendable {
        let message: ReceivedMessage
        let since = MonotonicInstant.now
    }

    /// The index of an entry, until its end.
    typealias Place = Int

    private struct State {
        var entries: [Entry?] = []
        var free: [Place] = []
        var isFinishing = false
        var kinds: [UInt32: RequestKind] = [:]
        /// By the numbers of their handlers.
        var oneWay: [Int: OneWay] = [:]
        var oneWayCount = 0
        /// The lanes of each `serve` in progress.
        var lanes: [ServingLanes] = []

        /// Processes that do not read. Replies to them may never leave.
        var silent: Set<Incarnation> = []

        var isEmpty: Bool { free.count == entries.count }

        var isDone: Bool {
            guard isFinishing, !isEmpty else { return isFinishing }
            return !silent.isEmpty
                && entries.allSatisfy { entry in
                    entry.map { $0.isReplying && silent.contains($0.asker.incarnation) } ?? true
                }
        }

        mutating func add(_ entry: Entry) -> Place {
            if let place = free.popLast() {
                entries[place] = entry
                return place
            }
            entries.append(entry)
            return entries.count - 1
        }
    }

    private let state = Lock(State())
    /// Set when the port takes no more requests, and none waits for its reply, except requests of processes that do not
    /// read.
    let areDone = Promise<Void>()

    /// - Returns: Nil when the port takes no more requests.
    func begin(_ entry: Entry) -> Place? { state.withLock { $0.isFinishing ? nil : $0.add(entry) } }

    func end(_ place: Place) {
        change { state in
            state.entries[place] = nil
            state.free.append(place)
            // The room of many entries is freed.
            if state.isEmpty, state.entries.count > Self.mostKept { (state.entries, state.free) = ([], []) }
        }
    }

    private static let mostKept = 1024

    func setReplying(_ place: Place, _ isReplying: Bool) {
        change { $0.entries[place]?.isReplying = isReplying }
    }

    var isFinishing: Bool { state.withLock { $0.isFinishing } }

    /// Takes no more requests.
    func finish() { change { $0.isFinishing = true } }

    /// Notes whether the process reads nothing. Then the port's end does not wait for replies to it.
    func note(_ asker: Incarnation, isSilent: Bool) {
        change { state in if isSilent { state.silent.insert(asker) } else { state.silent.remove(asker) } }
    }

    private func change(_ change: (inout State) -> Void) {
        let isDone = state.withLock { state in
            change(&state)
            return state.isDone
        }
        if isDone { areDone.set(()) }
    }

    var isEmpty: Bool { state.withLock { $0.isEmpty } }

    /// Calls `body` with each request in progress, under the lock, because a copy of very many requests would take
    /// longer. `body` must be short.
    func forEach(_ body: (Entry, RequestKind?) -> Void) {
        state.withLock { state in
            for case let entry? in state.entries { body(entry, state.kinds[entry.subject]) }
        }
    }

    // MARK: Kinds

    func kind(of subject: UInt32) -> RequestKind? { state.withLock { $0.kinds[subject] } }

    func setKind(_ kind: RequestKind, of subject: UInt32) {
        let lanes = state.withLock { state in
            state.kinds[subject] = kind
            return state.lanes
        }
        if kind.lane != nil { for lanes in lanes { lanes.takeAhead() } }
    }

    // MARK: Handlers

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

    var lanes: [ServingLanes] { state.withLock { $0.lanes } }

    func add(_ lanes: ServingLanes) {
        let hasLanes = state.withLock { state in
            state.lanes.append(lanes)
            return state.kinds.values.contains { $0.lane != nil }
        }
        if hasLanes { lanes.takeAhead() }
    }

    func remove(_ lanes: ServingLanes) { state.withLock { $0.lanes.removeAll { $0 === lanes } } }
}

/// The owner's description of the requests with an id. See ``LocalMessagePort/setKind(_:ofRequests:)``.
public struct RequestKind: Sendable, Hashable {
    /// The name of such a request in texts. `TypedPorts` sets the name of its type.
    public var name: String
    /// Whether such a request may wait for its reply without limit, as a stream does. Then it never counts as slow.
    public var mayLast: Bool
    /// The lane in which `serve` handles such a request; nil for the lane of all others.
    public var lane: RequestLane?

    /// Makes a kind.
    public init(name: String, mayLast: Bool = false, lane: RequestLane? = nil) {
        (self.name, self.mayLast, self.lane) = (name, mayLast, lane)
    }
}
