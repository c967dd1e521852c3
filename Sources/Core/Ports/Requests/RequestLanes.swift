import DequeModule
import RunLoopLocks

/// The lanes of one `serve`. One task takes requests. It waits until it may take another, or is woken for good.
final class RequestLanes: Waiter {
    /// A request that waits for its lane. Exactly one of its closures is called.
    struct Work: Sendable {
        let answer: @Sendable () async -> Void
        let refuse: @Sendable () -> Void
    }

    typealias Table = RequestLaneAdmission<Work>

    /// The state for an observer of the port.
    struct Look {
        let count: Int
        let limit: Int
        let fullLane: String?
    }

    private struct State {
        var table: Table
        var isWoken = false
        var taker: CheckedContinuation<Void, Never>?
    }

    private let state: Lock<State>

    init(_ lane: RequestLane, lasting: RequestLane?) { state = Lock(State(table: Table(lane, lasting: lasting))) }

    var look: Look {
        state.withLock { state in
            let (count, limit) = state.table.handlers
            return Look(count: count, limit: limit, fullLane: state.table.fullLane)
        }
    }

    var counters: [String: RequestLane.Counters] { state.withLock { $0.table.counters } }

    /// Takes requests ahead, because a request of another lane may be behind one that has to wait.
    func takeAhead() { change { $0.takesAhead = true } }

    /// Suspends until the next request may be taken, or somebody has called ``wake()``.
    func wait() async {
        await withCheckedContinuation { continuation in
            let mayTake = state.withLock { state in
                let mayTake = state.table.mayTake || state.isWoken
                if !mayTake { state.taker = continuation }
                return mayTake
            }
            if mayTake { continuation.resume() }
        }
    }

    func arrive(_ kind: RequestKind?, _ subject: UInt32, _ work: () -> Work) -> Table.Arrival {
        state.withLock { $0.table.arrive(kind, subject, work) }
    }

    /// A request has ended.
    /// - Parameter isLast: Whether its task handles no other: it was cancelled.
    /// - Returns: The request to handle next, in the same task.
    func end(_ index: Table.Index, isLast: Bool) -> Work? { change { $0.end(index, isLast: isLast) } }

    /// A request has ended, whose task handles no other. The next one gets a task.
    func goOn(_ index: Table.Index) {
        guard let next = end(index, isLast: false) else { return }
        Task {
            await next.answer()
            goOn(index)
        }
    }

    func withdraw(_ index: Table.Index, _ ticket: Table.Ticket) { _ = change { $0.withdraw(index, ticket) } }

    /// The port finishes, and another owner of its name may handle the requests that wait.
    func finish() { for work in change({ $0.finish() }) { work.refuse() } }

    func refuseWaiting() { for work in change({ $0.removeWaiting() }) { work.refuse() } }

    func wake() { resume { $0.isWoken = true } }

    private func change<Result: Sendable>(_ change: (inout Table) -> Result) -> Result {
        resume { change(&$0.table) }
    }

    private func resume<Result: Sendable>(after change: (inout State) -> Result) -> Result {
        let (result, taker) = state.withLock { state in
            let result = change(&state)
            return (result, state.table.mayTake || state.isWoken ? state.taker.take() : nil)
        }
        taker?.resume()
        return result
    }
}

/// The lanes of one `serve`. They count the requests in handlers and keep those that wait, and decide whether another
/// may be taken.
struct RequestLaneAdmission<Work: Sendable>: Sendable {
    typealias Index = Int
    typealias Ticket = UInt64

    /// The fate of a request that was taken.
    enum Arrival: Equatable {
        case start(Index)
        case wait(Index, Ticket)
        case refuse(limit: Int)
        /// The port finishes: nobody handles the request.
        case turnAway
    }

    private struct Entry {
        let lane: RequestLane
        let name: String
        var running = 0
        var refused = 0
        var waiting: Deque<(ticket: Ticket, work: Work)> = []

        /// Whether a request of the lane may be taken. A lane that refuses always has an answer.
        func hasRoom(_ takesAhead: Bool) -> Bool {
            lane.whenFull.refuses || running < lane.limit
                || takesAhead && waiting.count < lane.whenFull.mostWaiting
        }
    }

    private struct Key: Hashable {
        let lane: RequestLane
        /// The id of the requests of a lane without a name, which is not shared.
        let subject: UInt32?
    }

    private var entries: [Entry]
    private var indices: [Key: Index] = [:]
    private let lastingIndex: Index
    private var lastTicket: Ticket = 0

    /// Whether no request waits any more, because the port finishes.
    private var isFinishing = false

    /// Whether requests are taken before there is a handler for them, because requests of other lanes may be behind
    /// them.
    var takesAhead = false

    /// - Parameters:
    ///   - lane: The lane of requests without a lane of their own.
    ///   - lasting: The lane of requests that may last and have no lane; nil for the same one.
    init(_ lane: RequestLane, lasting: RequestLane?) {
        entries = [Entry(lane: lane, name: "")]
        lastingIndex = lasting == nil ? 0 : 1
        if let lasting { entries.append(Entry(lane: lasting, name: "streams")) }
    }

    /// Whether the next request may be taken. Its lane is not known yet, so every lane needs room.
    var mayTake: Bool { entries.allSatisfy { $0.hasRoom(takesAhead) } }

    /// The name of a full lane, because of which nothing is taken; empty for the lane of requests without one.
    var fullLane: String? { entries.first { !$0.hasRoom(takesAhead) }?.name }

    /// The requests in handlers and their limits, of all lanes except the lane of requests that may last.
    var handlers: (count: Int, limit: Int) {
        entries.indices.reduce((0, 0)) { sum, index in
            if index == lastingIndex, index > 0 { return sum }
            let limit = sum.1.addingReportingOverflow(entries[index].lane.limit)
            return (sum.0 + entries[index].running, limit.overflow ? .max : limit.partialValue)
        }
    }

    /// By the names of the lanes.
    var counters: [String: RequestLane.Counters] {
        entries.reduce(into: [:]) { counters, entry in
            let own = RequestLane.Counters(
                running: entry.running, waiting: entry.waiting.count, refused: entry.refused)
            counters[entry.name] = counters[entry.name].map { $0 + own } ?? own
        }
    }

    /// - Parameter work: Called for a request that waits.
    mutating func arrive(_ kind: RequestKind?, _ subject: UInt32, _ work: () -> Work) -> Arrival {
        let index = index(of: kind, subject)
        let lane = entries[index].lane
        if entries[index].running < lane.limit {
            entries[index].running += 1
            return .start(index)
        }
        if isFinishing { return .turnAway }
        // A lane without room to wait accepts one request, which was taken before its lane was known.
        if lane.whenFull.refuses, entries[index].waiting.count >= lane.whenFull.mostWaiting {
            entries[index].refused += 1
            return .refuse(limit: lane.limit)
        }
        lastTicket += 1
        entries[index].waiting.append((lastTicket, work()))
        return .wait(index, lastTicket)
    }

    private mutating func index(of kind: RequestKind?, _ subject: UInt32) -> Index {
        guard let kind, let lane = kind.lane else { return kind?.mayLast == true ? lastingIndex : 0 }
        let key = Key(lane: lane, subject: lane.name == nil ? kind.placesOf ?? subject : nil)
        if let known = indices[key] { return known }
        entries.append(Entry(lane: lane, name: lane.name ?? kind.name))
        indices[key] = entries.count - 1
        return entries.count - 1
    }

    /// A request of the lane has ended.
    /// - Returns: The next one to handle, in its place.
    mutating func end(_ index: Index, isLast: Bool = false) -> Work? {
        if !isLast, let next = entries[index].waiting.popFirst() { return next.work }
        entries[index].running -= 1
        return nil
    }

    /// Nobody waits for the request any more.
    mutating func withdraw(_ index: Index, _ ticket: Ticket) -> Work? {
        guard let place = entries[index].waiting.firstIndex(where: { $0.ticket == ticket }) else { return nil }
        return entries[index].waiting.remove(at: place).work
    }

    /// The port finishes: removes all waiting requests, and lets no other wait.
    mutating func finish() -> [Work] {
        isFinishing = true
        return removeWaiting()
    }

    /// Removes all waiting requests.
    mutating func removeWaiting() -> [Work] {
        entries.indices.flatMap { index in
            defer { entries[index].waiting = [] }
            return entries[index].waiting.map(\.work)
        }
    }
}
