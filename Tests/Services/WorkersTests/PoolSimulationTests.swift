import OwnThread
import TestSupport
import Testing

@testable import Workers

/// Pools of workers that end at any moment, as values: requests come, wait, give up and leave in all orders that seeds give.
@Suite(.ownThread) struct PoolSimulationTests {
    private struct Pool {
        typealias State = PoolState<Int>

        let count: Int
        let queueLimit: Int
        let requestsPerWorker: Int
        let mostRequests: Int
        var state: State
        var chance: SplitMix64
        /// The live worker of each member, and the requests that it has had.
        var workers: [Int: (number: Int, had: Int)] = [:]
        /// The workers that the pool has to end, because they have had enough requests.
        var spent: Set<Int> = []
        var lastWorker = 0
        var leases: [(lease: State.Lease, member: Int, worker: Int)] = []
        /// The requests that wait: the slot, or nil for any.
        var waiting: [Int: Int?] = [:]
        /// The slots of workers, as far as requests have shown them.
        var slots: [Int: Int] = [:]
        var run = 0
        var isRunning = false
        var fault: String?

        init(seed: UInt64) {
            var chance = SplitMix64(seed: seed)
            count = .random(in: 1...4, using: &chance)
            requestsPerWorker = .random(in: 1...3, using: &chance)
            mostRequests = Bool.random(using: &chance) ? .random(in: 1...6, using: &chance) : .max
            queueLimit = .random(in: 1...8, using: &chance)
            state = State(
                name: "pool", count: count, spares: .random(in: 0...2, using: &chance), queueLimit: queueLimit,
                requestsPerWorker: requestsPerWorker,
                mostRequests: mostRequests == .max ? nil : mostRequests)
            self.chance = chance
        }

        mutating func check(_ isTrue: Bool, _ promise: String) { if !isTrue { fault = fault ?? promise } }

        mutating func step() {
            switch Int.random(in: 0..<12, using: &chance) {
            case 0..<4: arrive()
            case 4..<8: leave()
            case 8: withdraw()
            case 9: endWorker()
            case 10: startWorker()
            default: if Int.random(in: 0..<20, using: &chance) == 0 { isRunning ? endRun() : beginRun() }
            }
            checkAll()
        }

        mutating func arrive() {
            let slot = Bool.random(using: &chance) ? Int.random(in: 0..<count, using: &chance) : nil
            switch state.arrive(for: slot) {
            case .go(let lease): got(lease)
            case .wait(let ticket): waiting[ticket] = .some(slot)
            case .refuse(.full): check(waiting.count == queueLimit, "a pool that refuses is full")
            case .refuse: check(!isRunning, "only a stopped pool refuses")
            }
        }

        mutating func got(_ lease: State.Lease) {
            let member = workers.first { $0.value.number == lease.worker }?.key
            check(member != nil, "a request gets a live worker")
            guard let member else { return }
            workers[member]?.had += 1
            leases.append((lease, member, lease.worker))
            check(
                leases.count { $0.worker == lease.worker } <= requestsPerWorker, "a worker has no more than its limit")
            check(workers[member]?.had ?? 0 <= mostRequests, "a worker has no more in all than its limit")
            check(!spent.contains(lease.worker), "a worker that is to end gets no request")
        }

        mutating func take(_ grants: [State.Grant]) {
            for (ticket, outcome) in grants {
                check(waiting[ticket] != nil, "a request that waits gets one outcome")
                let slot = waiting.removeValue(forKey: ticket) ?? nil
                guard case .success(let lease) = outcome else { continue }
                if let slot { slots[lease.worker] = slot }
                let ownSlot = slots[lease.worker]
                let hasOlder = waiting.contains { $0 < ticket && ($1 == nil || $1 == ownSlot) }
                check(!hasOlder, "a worker goes to the request that has waited longest for it")
                got(lease)
            }
        }

        mutating func leave() {
            guard !leases.isEmpty else { return }
            let (lease, member, worker) = leases.remove(at: .random(in: 0..<leases.count, using: &chance))
            let (next, isSpent) = state.leave(lease)
            let isLive = workers[member]?.number == worker
            check(isLive || next == nil && !isSpent, "what a former worker leaves is not its successor's")
            if isSpent {
                check(!leases.contains { $0.worker == worker }, "a worker ends after its last request")
                spent.insert(worker)
            }
            take(next.map { [$0] } ?? [])
        }

        mutating func withdraw() {
            guard let ticket = waiting.keys.sorted().randomElement(using: &chance) else { return }
            check(state.withdraw(ticket), "a request that waits can give up")
            waiting[ticket] = nil
            check(!state.withdraw(ticket), "a request gives up once")
        }

        mutating func endWorker() {
            guard let member = workers.keys.sorted().randomElement(using: &chance) else { return }
            workers[member] = nil
            take(state.end(member))
        }

        mutating func startWorker() {
            guard isRunning,
                let member = (0..<state.memberCount).filter({ workers[$0] == nil }).randomElement(using: &chance)
            else { return }
            lastWorker += 1
            workers[member] = (lastWorker, 0)
            take(state.start(lastWorker, as: member))
        }

        mutating func beginRun() {
            run = state.begin()
            isRunning = true
        }

        mutating func endRun() {
            take(state.end(run, with: .stopped(pool: "pool")))
            check(waiting.isEmpty, "the end tells all who wait")
            (workers, isRunning) = ([:], false)
        }

        mutating func checkAll() {
            check(state.waitingCount == waiting.count, "the pool knows who waits")
            check(waiting.count <= queueLimit, "no more wait than may")
            guard waiting.contains(where: { $0.value == nil }) else { return }
            // A worker with a slot and with room would have taken one that waits for any.
            let idle = workers.filter { member, worker in
                !state.isSpare(member) && worker.had < mostRequests
                    && leases.count { $0.worker == worker.number } < requestsPerWorker
            }
            check(idle.isEmpty, "nobody waits for any worker while one has room")
            check(
                workers.count < count || workers.keys.count { !state.isSpare($0) } == count,
                "no spare waits while a slot has no worker")
        }
    }

    @Test func `each request has one outcome, whichever workers end`() {
        let first = drawnSeed()
        for seed in (0..<UInt64(Scale.count(300, long: 20_000))).map({ first &+ $0 }) {
            var pool = Pool(seed: seed)
            pool.beginRun()
            for _ in 0..<300 where pool.fault == nil { pool.step() }
            if let fault = pool.fault { return _ = Issue.record("not so: \(fault) (SEED=\(seed))") }
        }
    }
}
