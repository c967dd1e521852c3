import Testing

@testable import Workers

/// Which request gets which worker, as values.
@Suite struct PoolStateTests {
    typealias State = PoolState<String>

    private func state(
        count: Int = 2, spares: Int = 0, queueLimit: Int = 10, requests: Int = 1, most: Int? = nil
    ) -> State {
        State(
            name: "pool", count: count, spares: spares, queueLimit: queueLimit, requestsPerWorker: requests,
            mostRequests: most)
    }

    private func lease(_ arrival: State.Arrival) -> State.Lease? {
        if case .go(let lease) = arrival { lease } else { nil }
    }
    private func ticket(_ arrival: State.Arrival) -> Int? {
        if case .wait(let ticket) = arrival { ticket } else { nil }
    }
    private func error(_ arrival: State.Arrival) -> WorkerPoolError? {
        if case .refuse(let error) = arrival { error } else { nil }
    }

    private func worker(_ grant: State.Grant?) -> String? { try? grant?.outcome.get().worker }

    @Test func `requests wait until a worker is ready, and get it in their order`() throws {
        var state = state()
        let tickets = (1...3).map { _ in ticket(state.arrive(for: nil)) }
        #expect(state.waitingCount == 3)
        var grants = state.start("a", as: 0)
        #expect(grants.map(\.ticket) == [tickets[0]] && worker(grants.first) == "a")
        grants = state.start("b", as: 1)
        #expect(grants.map(\.ticket) == [tickets[1]] && worker(grants.first) == "b")
        let lease = try grants[0].outcome.get()
        let next = state.leave(lease).next
        #expect(next?.ticket == tickets[2] && worker(next) == "b")
        #expect(state.waitingCount == 0)
    }

    @Test func `a request goes to the worker that has least to do`() throws {
        var state = state(requests: 2)
        _ = (state.start("a", as: 0), state.start("b", as: 1))
        let workers = (1...4).map { _ in lease(state.arrive(for: nil))?.worker }
        #expect(workers == ["a", "b", "a", "b"])
        #expect(ticket(state.arrive(for: nil)) != nil)
    }

    @Test func `a request for one worker waits for that, and those who wait for any go by the time of their coming`()
        throws
    {
        var state = state()
        _ = (state.start("a", as: 0), state.start("b", as: 1))
        let first = try #require(lease(state.arrive(for: 1)))
        #expect(first.worker == "b")
        let own = ticket(state.arrive(for: 1))
        #expect(lease(state.arrive(for: nil))?.worker == "a")
        let any = ticket(state.arrive(for: nil))
        let second = try #require(state.leave(first).next)
        #expect(second.ticket == own)
        #expect(try state.leave(second.outcome.get()).next?.ticket == any)
    }

    @Test func `the queue has a bound, and those who go make room`() {
        var state = state(queueLimit: 2)
        let first = ticket(state.arrive(for: nil))
        #expect(ticket(state.arrive(for: 1)) != nil)
        #expect(error(state.arrive(for: nil)) == .full(pool: "pool", limit: 2))
        #expect(first.map { state.withdraw($0) } == true)
        #expect(first.map { state.withdraw($0) } == false)
        let third = ticket(state.arrive(for: nil))
        #expect(third != nil)
        // The request that has gone gets nothing.
        #expect(state.start("b", as: 1).map(\.ticket) == [third])
    }

    @Test func `a worker is spent when its requests are done`() throws {
        var state = state(count: 1, requests: 2, most: 2)
        _ = state.start("a", as: 0)
        let leases = [lease(state.arrive(for: nil)), lease(state.arrive(for: nil))].compactMap(\.self)
        #expect(leases.count == 2)
        let waiting = ticket(state.arrive(for: nil))
        var left = state.leave(leases[0])
        #expect(left.next == nil && !left.isSpent)
        left = state.leave(leases[1])
        #expect(left.next == nil && left.isSpent)
        _ = state.end(0)
        #expect(state.start("b", as: 0).map(\.ticket) == [waiting])
    }

    @Test func `what a former worker has left is not its successor's`() throws {
        var state = state(count: 1)
        _ = state.start("a", as: 0)
        let late = try #require(lease(state.arrive(for: nil)))
        _ = state.end(0)
        let waiting = ticket(state.arrive(for: nil))
        #expect(state.start("b", as: 0).map(\.ticket) == [waiting])
        #expect(state.leave(late).next == nil)
        #expect(state.busy(0) == 1)
    }

    @Test func `a spare takes the slot of a worker that ends, with the requests that wait for it`() throws {
        var state = state(count: 1, spares: 2)
        for (member, worker) in ["a", "b", "c"].enumerated() { _ = state.start(worker, as: member) }
        #expect((0...2).map { state.isSpare($0) } == [false, true, true])
        let late = try #require(lease(state.arrive(for: 0)))
        let waiting = ticket(state.arrive(for: 0))
        // The spare that has waited longest.
        let grants = state.end(0)
        #expect(grants.map(\.ticket) == [waiting] && worker(grants.first) == "b")
        #expect((0...2).map { state.isSpare($0) } == [false, false, true])
        // The former worker has its request still, and gets no other.
        #expect((0...1).map { state.busy($0) } == [1, 1])
        #expect(state.leave(late).next == nil && state.busy(0) == 0)
        #expect(state.end(0).isEmpty)
        // Its successor is a spare, behind the one that was there.
        _ = state.start("d", as: 0)
        #expect(state.isSpare(0))
        _ = state.leave(try grants[0].outcome.get())
        _ = state.end(1)
        #expect(lease(state.arrive(for: nil))?.worker == "c")
    }

    @Test func `a spare that has ended takes no slot`() {
        var state = state(count: 1, spares: 1)
        _ = (state.start("a", as: 0), state.start("b", as: 1))
        #expect(state.end(1).isEmpty && !state.isSpare(1))
        _ = state.end(0)
        let next = ticket(state.arrive(for: nil))
        let grants = state.start("c", as: 1)
        #expect(grants.map(\.ticket) == [next] && worker(grants.first) == "c")
    }

    @Test func `the end refuses those who wait and those who come`() {
        var state = state()
        let tickets = [ticket(state.arrive(for: 1)), ticket(state.arrive(for: nil))]
        let grants = state.end(0, with: .stopped(pool: "pool"))
        #expect(grants.map(\.ticket) == tickets)
        #expect(grants.allSatisfy { if case .failure(.stopped) = $0.outcome { true } else { false } })
        #expect(error(state.arrive(for: nil)) == .stopped(pool: "pool"))
        #expect(state.start("a", as: 0).isEmpty)
        _ = state.end(0, with: .failed(pool: "pool", reasons: []))
        #expect(error(state.arrive(for: nil)) == .stopped(pool: "pool"))
    }

    @Test func `the end of a run is not that of the next`() {
        var state = state()
        _ = state.end(0, with: .stopped(pool: "pool"))
        #expect(state.begin() == 1)
        #expect(state.end(0, with: .stopped(pool: "pool")).isEmpty)
        #expect(ticket(state.arrive(for: nil)) != nil)
    }

    @Test func `restarts are too many when more than some come in some time`() {
        var history = RestartHistory(RestartIntensity(most: 2, in: .seconds(10)))
        let start = ContinuousClock.now
        #expect(history.note("a", at: start) == nil)
        #expect(history.note("b", at: start + .seconds(1)) == nil)
        #expect(history.note("c", at: start + .seconds(12)) == nil)
        #expect(history.note("d", at: start + .seconds(13)) == nil)
        #expect(history.note("e", at: start + .seconds(14)) == ["c", "d", "e"])
    }

    @Test func `each failed start doubles the wait, up to a bound`() {
        var backOff = BackOff(.seconds(1)...(.seconds(5)))
        #expect((1...5).map { _ in backOff.next() } == [.zero, .seconds(1), .seconds(2), .seconds(4), .seconds(5)])
        backOff.reset()
        #expect(backOff.next() == .zero)
    }
}
