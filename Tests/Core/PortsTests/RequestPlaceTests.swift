import Testing

@testable import Ports

/// Follows a request whose port goes from home to home, as its asker does.
struct RequestPlaceTests {
    private let homes = (1...4).map { PortID(incarnation: .random(), number: $0) }

    private func sent() -> RequestPlace {
        var place = RequestPlace(homes[0])
        #expect(place.noteSent() == .nothing)
        return place
    }

    @Test func `a request that has gone on is asked for at the next home, whenever that is known`() {
        var place = sent()
        #expect(place.movedOn(from: homes[0]) == .follow)
        // The move is not known yet.
        let asksThere = place.follow(to: homes[0])
        #expect(!asksThere)
        #expect(place.stage == .gone)
        #expect(place.portLeft(homes[0]) == .follow)
        let asks = place.follow(to: homes[2])
        #expect(asks)
        #expect(place.home == homes[2])
        // A former home is late.
        #expect(place.movedOn(from: homes[0]) == .nothing)
        #expect(place.stage == .asked)
        place.isHere(at: homes[1])
        #expect(place.stage == .asked)
        place.isHere(at: homes[2])
        #expect(place.stage == .there)
        #expect(place.unanswered() == .end)
    }

    @Test func `a reply on its way has time to arrive in a process that was stopped past the deadline`() {
        typealias Found = StatisticsCollector.Collected
        let start = MonotonicInstant.now
        var end = ReplyWait(port: homes[0], didEnd: true, at: start)
        let none = Found(statistics: .init(received: 5, waiting: 0), isQueued: false, silent: [])
        let one = Found(statistics: .init(received: 5, waiting: 1), isQueued: false, silent: [])
        let hour = start + .seconds(3600)
        let withNone = end.mayHaveReply(at: 1, none, now: hour)
        let withOne = [0, 2.5, 5, 7.5, 10].map { end.mayHaveReply(at: 1, one, now: hour + .seconds($0)) }
        #expect(!withNone && withOne == [true, true, true, true, false])
    }

    @Test func `a request that a living owner has stays with it`() {
        var place = sent()
        #expect(place.portLeft(homes[0], isTold: false) == .nothing)
        #expect(place.portLeft(homes[0]) == .askThere)
        #expect(place.repliesTaken(from: homes[0], didEnd: false) == .nothing)
        place.isHere(at: homes[0])
        #expect(place.stage == .there)
    }

    @Test func `the replies of a home come before the question to the next one`() {
        var place = sent()
        #expect(place.ended(homes[0]) == .takeReplies)
        #expect(place.repliesTaken(from: homes[0], didEnd: true) == .follow)
        let asks = place.follow(to: homes[1])
        #expect(asks)
        #expect(place.portLeft(homes[1]) == .takeReplies)
        #expect(place.repliesTaken(from: homes[1], didEnd: false) == .follow)
        let asksAgain = place.follow(to: homes[2])
        #expect(asksAgain)
        #expect(place.unanswered() == .takeReplies)
        #expect(place.repliesTaken(from: homes[1], didEnd: true) == .nothing)
    }

    /// Nobody may know the next home any more, and a reply may be on its way from there.
    @Test func `late news of a home that has ended come after its replies`() {
        var place = sent()
        #expect(place.ended(homes[0]) == .takeReplies)
        #expect(place.movedOn(from: homes[0]) == .nothing)
        #expect(place.portLeft(homes[0]) == .nothing)
        // The end of an earlier look at a living home, in which the reply may not have come yet.
        #expect(place.repliesTaken(from: homes[0], didEnd: false) == .nothing)
        #expect(place.repliesTaken(from: homes[0], didEnd: true) == .follow)
    }

    @Test func `a reply of an owner without a connection may be on its way`() {
        let none = StatisticsCollector.Collected(
            statistics: .init(received: 5, waiting: 0), isQueued: false, silent: [])
        var end = ReplyWait(port: homes[0], didEnd: true)
        end.owner = .unconnected
        let waits = end.mayHaveReply(at: 1, none)
        end.owner = .dead
        let waitsForDead = end.mayHaveReply(at: 1, none)
        #expect(waits && !waitsForDead)
    }

    @Test func `a reply of a former home that nobody knows may be on its way from any process`() {
        func waits(_ waiting: Int, _ silent: Set<Incarnation>) -> Bool {
            var end = ReplyWait(port: homes[0], didEnd: false)
            end.owner = .unknown
            return end.mayHaveReply(
                at: 1, .init(statistics: .init(received: 5, waiting: waiting), isQueued: false, silent: silent))
        }
        #expect(waits(1, []) && waits(0, [homes[1].incarnation]) && !waits(0, []))
    }

    @Test func `nobody is asked for a request before it is sent`() {
        var place = RequestPlace(homes[0])
        #expect(place.ended(homes[0]) == .nothing)
        #expect(place.repliesTaken(from: homes[0], didEnd: true) == .nothing)
        place.readdress(to: homes[1])
        #expect(place.ended(homes[1]) == .nothing)
        #expect(place.noteSent() == .takeReplies)
        place.readdress(to: homes[2])
        #expect(place.home == homes[1])
        // A notice may come before the sender notes that the request was sent.
        var other = RequestPlace(homes[0])
        #expect(other.movedOn(from: homes[0]) == .follow)
        #expect(other.noteSent() == .nothing)
        #expect(other.stage == .gone)
    }

    @Test func `a home that has lost the port while a request was being sent there is asked for it`() {
        var place = RequestPlace(homes[0])
        #expect(place.portLeft(homes[0]) == .nothing)
        #expect(place.noteSent() == .askThere)
        // It is not there: it was lost on its way, or the reply is on its way.
        #expect(place.movedOn(from: homes[0]) == .takeReplies)
        #expect(place.repliesTaken(from: homes[0], didEnd: false) == .follow)
        let asks = place.follow(to: homes[1])
        #expect(asks)
    }

    // MARK: All orders

    /// A port that a lender lends twice, a request at it, and its asker, in one state of all that there are.
    private struct World: Hashable {
        enum News: Hashable { case movedOn(Int), left(Int), isHere(Int), unanswered, replied }
        /// A request is lost with the socket of a borrower that ends the port.
        enum Fate: Hashable, CaseIterable { case replied, repliesLate, dropped, died, lost }

        /// The lender, a borrower, the lender again, and another borrower, by the processes.
        static let processes = [0, 1, 0, 2]
        /// The home that takes the request, and what becomes of it there.
        let taker: Int
        let fate: Fate
        /// Whether the borrower ends the port, and lives.
        let borrowerLives: Bool

        var home = 0
        var isTaken = false
        /// Whether the taker is still at work.
        var isInHand = false
        var isDead = [false, false, false]
        /// Whether the asker knows.
        var knowsDeath = [false, false, false]
        /// The news that each process has sent to the asker, and the questions to it.
        var news: [[News]] = [[], [], []]
        var questions: [[Int]] = [[], [], []]
        /// The home to which each leads, as far as the asker knows.
        var next: [Int?] = [nil, nil, nil, nil]
        /// The steps to take when the replies of a home were taken.
        var takes: [Take] = []
        var stage: RequestPlace.Stage = .there
        var place = 0
        var outcome: Outcome?

        enum Outcome: Hashable { case replied, ended }

        struct Take: Hashable {
            let from: Int
            let didEnd: Bool
            /// Whether the request ends then.
            var endsUnanswered = false
        }
    }

    /// The asker's part, by the value that is tested.
    private func handle(
        _ world: inout World, _ take: World.Take, _ change: (inout RequestPlace) -> RequestPlace.Step
    ) {
        guard world.outcome == nil else { return }
        var place = RequestPlace(at: homes[world.place], world.stage)
        let step = change(&place)
        (world.stage, world.place) = (place.stage, homes.firstIndex(of: place.home) ?? 0)
        switch step {
        case .nothing: break
        case .askThere: world.questions[World.processes[world.place]].append(world.place)
        case .end: world.outcome = .ended
        case .takeReplies: world.takes.append(take)
        case .follow:
            var latest = world.place
            while let next = world.next[latest] { latest = next }
            if place.follow(to: homes[latest]) {
                world.questions[World.processes[latest]].append(latest)
            } else if world.next[world.place] == nil, world.isDead[World.processes[world.place]] {
                world.outcome = .ended
            }
            (world.stage, world.place) = (place.stage, latest)
        }
    }

    /// All states that may follow.
    private func steps(_ world: World) -> [World] {
        var following: [World] = []
        func may(_ change: (inout World) -> Void) {
            var next = world
            change(&next)
            following.append(next)
        }
        let owner = World.processes[world.home]
        let mustTake = world.home == world.taker && !world.isTaken && world.fate != .lost
        if mustTake {
            may { next in
                next.isTaken = true
                switch world.fate {
                case .replied: next.news[owner].append(.replied)
                case .repliesLate: next.isInHand = true
                case .dropped: next.news[owner].append(.unanswered)
                case .died: next.isDead[owner] = true
                case .lost: break
                }
            }
        }
        if world.isInHand, !world.isDead[World.processes[world.taker]] {
            may { next in
                next.isInHand = false
                next.news[World.processes[world.taker]].append(.replied)
            }
        }
        // The port goes on, at the lender when its borrower has ended.
        if world.home < 3, !mustTake, owner == 1 || !world.isDead[owner] {
            may { next in
                next.home += 1
                if owner == 1, !world.borrowerLives {
                    next.isDead[1] = true
                } else if !world.isDead[owner] {
                    next.news[owner].append(.left(world.home))
                    let isLost = world.fate == .lost && world.home >= world.taker
                    if !world.isTaken, !isLost { next.news[owner].append(.movedOn(world.home)) }
                }
            }
        }
        for process in 0..<3 {
            if let first = world.news[process].first {
                may { next in
                    next.news[process].removeFirst()
                    hear(first, &next)
                }
            } else if world.isDead[process], !world.knowsDeath[process] {
                may { next in
                    next.knowsDeath[process] = true
                    for home in 0..<4 where World.processes[home] == process { learnEnd(of: home, didEnd: true, &next) }
                }
            }
            // A question waits until the port has come back.
            if let asked = world.questions[process].first, world.home >= asked || world.isDead[process] {
                may { next in
                    next.questions[process].removeFirst()
                    if world.isDead[process] { return }
                    let hasCome = (!world.isTaken && world.fate != .lost) || world.taker >= asked
                    if world.home == asked {
                        next.news[process].append(hasCome ? .isHere(asked) : .unanswered)
                    } else if world.isInHand, world.taker == asked {
                        next.news[process].append(.isHere(asked))
                    } else {
                        next.news[process].append(.movedOn(asked))
                    }
                }
            }
        }
        for index in world.takes.indices {
            // All replies of the home come first, and of other homes those that have been sent.
            let take = world.takes[index]
            if world.news.contains(where: { $0.contains(.replied) }) { continue }
            may { next in
                next.takes.remove(at: index)
                if take.endsUnanswered {
                    next.outcome = next.outcome ?? .ended
                } else {
                    handle(&next, take) { $0.repliesTaken(from: homes[take.from], didEnd: take.didEnd) }
                }
            }
        }
        return following
    }

    private func hear(_ news: World.News, _ world: inout World) {
        switch news {
        case .replied: world.outcome = world.outcome ?? .replied
        case .unanswered:
            let take = World.Take(from: world.place, didEnd: false, endsUnanswered: true)
            handle(&world, take) { $0.unanswered() }
        case .movedOn(let home):
            handle(&world, World.Take(from: home, didEnd: false)) { $0.movedOn(from: homes[home]) }
        case .isHere(let home):
            handle(&world, World.Take(from: home, didEnd: false)) { place in
                place.isHere(at: homes[home])
                return .nothing
            }
        case .left(let home): learnEnd(of: home, didEnd: false, &world)
        }
    }

    /// The asker looks up where the port has gone from a home.
    private func learnEnd(of home: Int, didEnd: Bool, _ world: inout World) {
        // The lender is known before it has the port again.
        if world.next[home] == nil, world.home > home || home == 1 { world.next[home] = max(world.home, home + 1) }
        let take = World.Take(from: home, didEnd: didEnd)
        handle(&world, take) { didEnd ? $0.ended(homes[home]) : $0.portLeft(homes[home]) }
    }

    /// No order of notices, ends and questions leaves a request without an outcome, whoever has taken it.
    @Test(arguments: 0..<4, [true, false])
    func `in all orders a request ends`(_ taker: Int, _ borrowerLives: Bool) {
        for fate in World.Fate.allCases {
            // A lender that dies keeps nothing.
            if fate == .died, taker != 1 || borrowerLives { continue }
            // A request that a dead borrower has not taken is lost with it, too. A port that is handed over loses nothing.
            if fate == .lost, taker != 1 { continue }
            var seen: Set<World> = []
            var open = [World(taker: taker, fate: fate, borrowerLives: borrowerLives)]
            var (ends, falseEnds) = (0, 0)
            while let world = open.popLast() {
                let next = steps(world)
                if next.isEmpty {
                    ends += 1
                    guard let outcome = world.outcome else {
                        Issue.record("taken by \(taker), \(fate): the request hangs in \(world)")
                        return
                    }
                    // A late reply may come when its asker has missed that the taker had the port.
                    if outcome == .ended, fate == .replied || fate == .repliesLate && taker == 0 { falseEnds += 1 }
                }
                for world in next where seen.insert(world).inserted { open.append(world) }
            }
            #expect(ends > 0)
            #expect(falseEnds == 0, "\(fate)")
        }
    }
}
