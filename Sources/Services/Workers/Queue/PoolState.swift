import DequeModule

/// The workers of a pool and the requests that wait for them, as a value: the pool takes its lock, asks this value for a
/// decision, and acts after the lock.
///
/// Requests go to slots. A pool has more members than slots: each member is a succession of workers, and the worker of a
/// member has a slot, or is a spare that waits for one.
struct PoolState<Worker: Sendable>: Sendable {
    /// A worker that a request may use.
    struct Lease: Sendable {
        fileprivate let member: Int
        /// The number of the worker among those of the member.
        fileprivate let generation: Int
        let worker: Worker
    }

    /// The answer to a caller that wants a worker.
    enum Arrival {
        case go(Lease)
        /// Wait for a grant with the ticket.
        case wait(Int)
        case refuse(WorkerPoolError)
    }

    /// A waiting request, and what it gets.
    typealias Grant = (ticket: Int, outcome: Result<Lease, WorkerPoolError>)

    private enum Place: Equatable {
        /// The worker is not there yet, has ended, or will.
        case none
        case spare
        case slot(Int)
    }

    private struct Member {
        var worker: Worker?
        var place = Place.none
        var generation = 0
        var busy = 0
        /// The requests that the present or last worker has had.
        var count = 0
    }

    private struct Slot {
        /// The member whose worker takes the requests; nil while there is none.
        var member: Int?
        /// The requests that wait for this slot's worker, in their order.
        var waiting: Deque<Int> = []
    }

    private let name: String
    private let queueLimit: Int
    private let requestsPerWorker: Int
    private let mostRequests: Int
    private var slots: [Slot]
    private var members: [Member]
    /// The members whose workers wait for a slot, the one that has waited longest first.
    private var spares: Deque<Int> = []
    /// The requests that wait for any worker, in their order.
    private var waiting: Deque<Int> = []
    /// The requests that wait. The queues may have some that do not wait any more.
    private var tickets: Set<Int> = []
    private var lastTicket = 0
    /// The reason why no requests are taken.
    private(set) var end: WorkerPoolError?
    private var run = 0

    init(name: String, count: Int, spares: Int, queueLimit: Int, requestsPerWorker: Int, mostRequests: Int?) {
        self.name = name
        self.queueLimit = queueLimit
        self.requestsPerWorker = requestsPerWorker
        self.mostRequests = mostRequests ?? .max
        slots = Array(repeating: Slot(), count: count)
        members = Array(repeating: Member(), count: count + spares)
    }

    var memberCount: Int { members.count }
    var waitingCount: Int { tickets.count }
    /// The requests that the worker of a member has now.
    func busy(_ member: Int) -> Int { members[member].busy }
    /// The requests that the worker of a member has had.
    func count(_ member: Int) -> Int { members[member].count }
    func isSpare(_ member: Int) -> Bool { members[member].place == .spare }

    // MARK: Requests

    /// A request wants a worker.
    /// - Parameter slot: The slot whose worker it has to be; nil for any.
    mutating func arrive(for slot: Int?) -> Arrival {
        if let end { return .refuse(end) }
        // Requests for any worker wait only while none is free.
        if let free = slot.map({ isFree($0) && slots[$0].waiting.isEmpty ? $0 : nil }) ?? leastBusy,
            let lease = lease(free)
        {
            return .go(lease)
        }
        guard tickets.count < queueLimit else { return .refuse(.full(pool: name, limit: queueLimit)) }
        lastTicket += 1
        tickets.insert(lastTicket)
        if let slot { slots[slot].waiting.append(lastTicket) } else { waiting.append(lastTicket) }
        return .wait(lastTicket)
    }

    /// A request does not wait any more.
    /// - Returns: False when it has got its worker, or an error.
    mutating func withdraw(_ ticket: Int) -> Bool { tickets.remove(ticket) != nil }

    /// A request has left its worker.
    /// - Returns: The request that gets the place, and whether the worker has to be ended, because it has had enough
    ///   requests.
    mutating func leave(_ lease: Lease) -> (next: Grant?, isSpent: Bool) {
        let member = lease.member
        // The worker may have a successor.
        guard members[member].generation == lease.generation else { return (nil, false) }
        members[member].busy -= 1
        guard case .slot(let slot) = members[member].place else { return (nil, false) }
        if members[member].count >= mostRequests { return (nil, members[member].busy == 0) }
        return (next(for: slot), false)
    }

    private func isFree(_ slot: Int) -> Bool {
        guard let member = slots[slot].member else { return false }
        return members[member].busy < requestsPerWorker && members[member].count < mostRequests
    }

    private var leastBusy: Int? {
        var (best, least) = (Int?.none, Int.max)
        for slot in slots.indices where isFree(slot) {
            guard let member = slots[slot].member, members[member].busy < least else { continue }
            if members[member].busy == 0 { return slot }
            (best, least) = (slot, members[member].busy)
        }
        return best
    }

    private mutating func lease(_ slot: Int) -> Lease? {
        guard let member = slots[slot].member, let worker = members[member].worker else { return nil }
        members[member].busy += 1
        members[member].count += 1
        return Lease(member: member, generation: members[member].generation, worker: worker)
    }

    /// The request that has waited longest for a free slot.
    private mutating func next(for slot: Int) -> Grant? {
        guard isFree(slot) else { return nil }
        dropWithdrawn(&slots[slot].waiting)
        dropWithdrawn(&waiting)
        let ticket: Int
        switch (slots[slot].waiting.first, waiting.first) {
        case (nil, nil): return nil
        case (let own?, let any) where any.map({ own < $0 }) ?? true:
            ticket = own
            slots[slot].waiting.removeFirst()
        case (_, let any?):
            ticket = any
            waiting.removeFirst()
        default: return nil
        }
        guard tickets.remove(ticket) != nil, let lease = lease(slot) else { return nil }
        return (ticket, .success(lease))
    }

    private func dropWithdrawn(_ queue: inout Deque<Int>) {
        while let first = queue.first, !tickets.contains(first) { queue.removeFirst() }
    }

    // MARK: Workers

    /// A worker is ready. It gets a slot without a worker, or else is a spare.
    /// - Returns: The requests that get it.
    mutating func start(_ worker: Worker, as member: Int) -> [Grant] {
        guard end == nil else { return [] }
        members[member] = Member(worker: worker, generation: members[member].generation + 1)
        if let slot = slots.firstIndex(where: { $0.member == nil }) { return fill(slot, with: member) }
        members[member].place = .spare
        spares.append(member)
        return []
    }

    private mutating func fill(_ slot: Int, with member: Int) -> [Grant] {
        members[member].place = .slot(slot)
        slots[slot].member = member
        var grants: [Grant] = []
        while let grant = next(for: slot) { grants.append(grant) }
        return grants
    }

    /// The worker of a member takes no further requests, because it has ended, or will. A spare takes its slot.
    /// - Returns: The requests that get the spare.
    mutating func end(_ member: Int) -> [Grant] {
        members[member].worker = nil
        switch exchange(&members[member].place, with: .none) {
        case .none: return []
        case .spare:
            spares.removeAll { $0 == member }
            return []
        case .slot(let slot):
            slots[slot].member = nil
            return spares.popFirst().map { fill(slot, with: $0) } ?? []
        }
    }

    /// The pool takes requests again.
    /// - Returns: The number of the run.
    mutating func begin() -> Int {
        (end, run) = (nil, run + 1)
        return run
    }

    /// The pool takes no further requests, unless a later run has begun.
    /// - Returns: The requests that wait.
    mutating func end(_ run: Int, with error: WorkerPoolError) -> [Grant] {
        guard run == self.run else { return [] }
        if end == nil { end = error }
        let grants = tickets.sorted().map { ($0, Result<Lease, WorkerPoolError>.failure(error)) }
        tickets = []
        for member in members.indices { (members[member].worker, members[member].place) = (nil, .none) }
        for slot in slots.indices { slots[slot] = Slot() }
        (spares, waiting) = ([], [])
        return grants
    }
}
