import RunLoopLocks
import RunLoops

/// The requests of a port that were taken and wait for their replies: which, and since when, so that the port can end after
/// the last, and that its owner can tell of them.
final class TakenRequests: Sendable {
    struct Entry: Sendable {
        /// The asker's port for the reply.
        let asker: PortID
        let number: UInt64
        /// The message's id.
        let subject: UInt32
        let since = MonotonicInstant.now
    }

    /// Where an entry stands, until its end.
    typealias Place = Int

    private struct State {
        var entries: [Entry?] = []
        var free: [Place] = []
        var isFinishing = false
        var kinds: [UInt32: RequestKind] = [:]
        /// The handlers of each `serve` in progress.
        var slots: [Slots] = []

        var isEmpty: Bool { free.count == entries.count }

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
    /// Set when the port takes no more requests, and none waits for its reply.
    let areDone = Promise<Void>()

    /// - Returns: Nil when the port takes no more requests.
    func begin(_ entry: Entry) -> Place? { state.withLock { $0.isFinishing ? nil : $0.add(entry) } }

    func end(_ place: Place) {
        change { state in
            state.entries[place] = nil
            state.free.append(place)
        }
    }

    var isFinishing: Bool { state.withLock { $0.isFinishing } }

    /// Takes no more requests.
    func finish() { change { $0.isFinishing = true } }

    private func change(_ change: (inout State) -> Void) {
        let isDone = state.withLock { state in
            change(&state)
            return state.isFinishing && state.isEmpty
        }
        if isDone { areDone.set(()) }
    }

    /// Those in progress, the oldest first.
    var all: [Entry] { state.withLock { $0.entries }.compactMap(\.self).sorted { $0.since < $1.since } }

    // MARK: Kinds

    func kind(of subject: UInt32) -> RequestKind? { state.withLock { $0.kinds[subject] } }
    func setKind(_ kind: RequestKind, of subject: UInt32) { state.withLock { $0.kinds[subject] = kind } }

    // MARK: Handlers

    var slots: [Slots] { state.withLock { $0.slots } }
    func add(_ slots: Slots) { state.withLock { $0.slots.append(slots) } }
    func remove(_ slots: Slots) { state.withLock { $0.slots.removeAll { $0 === slots } } }
}
