import DequeModule

/// The workers of a pool and the requests that wait for them, as a value: the pool takes its lock, asks this value for a
/// decision, and acts after the lock.
struct PoolState<Worker: Sendable>: Sendable {
    /// A worker that a request may use.
    struct Lease: Sendable {
        let slot: Int
        /// The number of the worker among those that the slot has had.
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

    private struct Slot {
        /// Nil while none runs, or the present one takes no further requests.
        var worker: Worker?
        var generation = 0
        var busy = 0
        /// The requests that the present worker has had.
        var count = 0
        /// The requests that wait for this slot's worker, in their order.
        var waiting: Deque<Int> = []
    }

    private let name: String
    private let queueLimit: Int
    private let requestsPerWorker: Int
    private let mostRequests: Int
    private var slots: [Slot]
    /// The requests that wait for any worker, in their order.
    private var waiting: Deque<Int> = []
    /// The requests that wait. The queues may have some that do not wait any more.
    private var tickets: Set<Int> = []
    private var lastTicket = 0
    private(set) var end: WorkerPoolError?

    init(name: String, count: Int, queueLimit: Int, requestsPerWorker: Int, mostRequests: Int?) {
        self.name = name
        self.queueLimit = queueLimit
        self.requestsPerWorker = requestsPerWorker
        self.mostRequests = mostRequests ?? .max
        slots = Array(repeating: Slot(), count: count)
    }

    var waitingCount: Int { tickets.count }
    func busy(in slot: Int) -> Int { slots[slot].busy }
    /// Whether the present or last worker of a slot has had a request.
    func hasWorked(_ slot: Int) -> Bool { slots[slot].count > 0 }

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
        let slot = lease.slot
        // The worker may have a successor.
        guard slots[slot].generation == lease.generation else { return (nil, false) }
        slots[slot].busy -= 1
        if slots[slot].count >= mostRequests { return (nil, slots[slot].busy == 0) }
        return (next(for: slot), false)
    }

    private func isFree(_ slot: Int) -> Bool {
        slots[slot].worker != nil && slots[slot].busy < requestsPerWorker && slots[slot].count < mostRequests
    }

    private var leastBusy: Int? {
        var best: Int?
        for slot in slots.indices where isFree(slot) {
            if slots[slot].busy == 0 { return slot }
            if best.map({ slots[slot].busy < slots[$0].busy }) ?? true { best = slot }
        }
        return best
    }

    private mutating func lease(_ slot: Int) -> Lease? {
        guard let worker = slots[slot].worker else { return nil }
        slots[slot].busy += 1
        slots[slot].count += 1
        return Lease(slot: slot, generation: slots[slot].generation, worker: worker)
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

    /// A worker is ready.
    /// - Returns: The requests that get it.
    mutating func start(_ worker: Worker, in slot: Int) -> [Grant] {
        guard end == nil else { return [] }
        slots[slot].worker = worker
        slots[slot].generation += 1
        slots[slot].busy = 0
        slots[slot].count = 0
        var grants: [Grant] = []
        while let grant = next(for: slot) { grants.append(grant) }
        return grants
    }

    /// The worker of a slot takes no further requests, because it has ended, or will.
    mutating func end(_ slot: Int) { slots[slot].worker = nil }

    /// The pool takes requests again.
    mutating func begin() { end = nil }

    /// The pool takes no further requests.
    /// - Returns: The requests that wait.
    mutating func end(_ error: WorkerPoolError) -> [Grant] {
        if end == nil { end = error }
        let grants = tickets.sorted().map { ($0, Result<Lease, WorkerPoolError>.failure(error)) }
        tickets = []
        for slot in slots.indices {
            slots[slot].worker = nil
            slots[slot].waiting = []
        }
        waiting = []
        return grants
    }
}
