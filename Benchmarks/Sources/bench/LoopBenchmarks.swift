import CBench
import Glibc
import RunLoops

/// Compares the run loop with Foundation's, with SwiftNIO's where that has the counterpart, and with the bare kernel.
enum LoopBenchmarks {
    /// - Parameters:
    ///   - part: Only rows with this in their names; nil: all.
    ///   - rounds: How many count; nil: as many as each row has time for.
    static func run(only part: String? = nil, rounds: Int? = nil) throws {
        raiseDescriptorLimit()
        let chosen = rows.filter { row in part.map { row.name.contains($0) } ?? true }
        guard !chosen.isEmpty else { throw BenchError.noRow(part ?? "") }
        print(Machine.description)
        print("ours, CFRunLoop, …, ours, CFRunLoop, …; medians of \(rounds ?? 15) rounds")
        print("two CPUs: each end is bound to one of its own; one CPU: both are bound to the same\n")
        fflush(nil)
        var table = Table()
        table.add(["run loop", "ours", "beside", "theirs", "ours / theirs", "limit"])
        for row in chosen {
            // A thread of its own: its loops, and all that is in them, end with it.
            let lines = try PlainThread.run { try row.lines(rounds ?? 15) }
            for (index, line) in lines.enumerated() { table.add([index == 0 ? row.name : ""] + line) }
        }
        print(table.text)
    }

    private static var rows: [LoopRow] {
        [
            LoopRow("a pass, timeout 0, one Source0, ns") {
                idlePass { $0.addSource0() }
            },
            LoopRow("a pass, timeout 0, one Source1, ns") {
                let event = cb_event()
                return try idlePass { try $0.addSource1(event) }
            },
            LoopRow("the same, 10,000 Source0s and timers, ns") {
                let (one, crowd) = (OurLoop(mode: "one"), OurLoop(mode: "crowd"))
                let foundation = CFLoop(mode: "crowd")
                one.addSource0()
                func fill(_ loop: some LoopContender) {
                    for _ in 0..<10_000 { loop.addSource0() }
                    loop.addFarTimers(10_000)
                }
                fill(crowd)
                fill(foundation)
                return Contest(
                    ours: { try crowd.nanosecondsAPass(5000) },
                    Rival("ours with one", .atMost(1.2)) { try one.nanosecondsAPass(5000) },
                    Rival("CFRunLoop") { try foundation.nanosecondsAPass(20) })
            },
            LoopRow("the same, \(whole(source1s)) Source1s, ns", lines: crowdOfSource1s),
            blockThereAndBack(.apart),
            blockThereAndBack(.together),
            blocksOneWay("blocks/s one way, one producer", producers: 1, .apart),
            blocksOneWay("blocks/s one way, four producers", producers: 4, .apart),
            blocksOneWay("blocks/s one way, one producer", producers: 1, .together),
            blocksOneWay("blocks/s one way, four producers", producers: 4, .together),
            LoopRow("add, invalidate one of 10,000 timers, µs", digits: 2) {
                let (ours, foundation) = (OurLoop(mode: "timers"), CFLoop(mode: "timers"))
                ours.addFarTimers(10_000)
                foundation.addFarTimers(10_000)
                return Contest(
                    ours: { ours.microsecondsATimer(1000) },
                    Rival("CFRunLoop", .atMost(0.1)) { foundation.microsecondsATimer(500) })
            },
            LoopRow("10,000 timers due at once, ms", digits: 2) {
                let (ours, foundation) = (OurLoop(mode: "due"), CFLoop(mode: "due"))
                return Contest(
                    ours: { try ours.millisecondsToFire(10_000) },
                    Rival("CFRunLoop", .atMost(0.3)) { try foundation.millisecondsToFire(10_000) })
            },
            LoopRow("a pass, one Source1, watched, ns") {
                let (alone, watched) = (try WatchedPasses(isWatched: false), try WatchedPasses(isWatched: true))
                return Contest(
                    ours: { try watched.nanosecondsAPass(20_000) },
                    Rival("not watched", .atMost(1.02)) { try alone.nanosecondsAPass(20_000) })
            },
            LoopRow("a wake-up and a block, watched, µs", digits: 2) {
                let (alone, watched) = (try Bounce<OurThread>(.together), try Bounce<WatchedThread>(.together))
                return Contest(
                    ours: { watched.microsecondsATrip(3000) },
                    Rival("not watched", .atMost(1.02)) { alone.microsecondsATrip(3000) })
            },
            LoopRow("left by runs with a timeout", lines: leaks),
            heap("a loop") { _ in
                (
                    try Heap.ofLoop { try prepared(OurLoop(mode: "heap")) },
                    try Heap.ofLoop { try prepared(CFLoop(mode: "heap")) }
                )
            },
            heap("an idle Source0") { (try Heap.ofSource0(in: $0.0), try Heap.ofSource0(in: $0.1)) },
            heap("an idle Source1") { (try Heap.ofSource1(in: $0.0), try Heap.ofSource1(in: $0.1)) },
            heap("a timer") { (try Heap.ofTimer(in: $0.0), try Heap.ofTimer(in: $0.1)) },
        ]
    }

    private static func idlePass(_ add: (any LoopContender) throws -> Void) rethrows -> Contest {
        let (ours, foundation) = (OurLoop(mode: "idle"), CFLoop(mode: "idle"))
        try add(ours)
        try add(foundation)
        return Contest(
            ours: { try ours.nanosecondsAPass(5000) },
            Rival("CFRunLoop", .atMost(0.25)) { try foundation.nanosecondsAPass(5000) })
    }

    private static func blockThereAndBack(_ placement: Placement) -> LoopRow {
        LoopRow("block there and back, \(placement.name), µs", digits: 1) {
            let (ours, foundation) = (try Bounce<OurThread>(placement), try Bounce<CFThread>(placement))
            let (nio, floor) = (try Bounce<NIOThread>(placement), try EventPair(placement))
            let trips = 1500
            return Contest(
                ours: { ours.microsecondsATrip(trips) },
                Rival("CFRunLoop", .atMost(1)) { foundation.microsecondsATrip(trips) },
                Rival("SwiftNIO") { nio.microsecondsATrip(trips) },
                Rival("eventfd + epoll", .atMost(1.3)) { try floor.microsecondsATrip(trips) })
        }
    }

    private static func blocksOneWay(_ name: String, producers: Int, _ placement: Placement) -> LoopRow {
        LoopRow("\(name), \(placement.name)", digits: 0) {
            let senders = try SenderThreads(producers, placement)
            let (ours, foundation) = (try Stream<OurThread>(placement), try Stream<CFThread>(placement))
            let nio = try Stream<NIOThread>(placement)
            return Contest(
                ours: { try ours.rate(100_000, from: senders) },
                Rival("CFRunLoop", .atLeast(4)) { try foundation.rate(40_000, from: senders) },
                Rival("SwiftNIO", .atLeast(2)) { try nio.rate(100_000, from: senders) })
        }
    }

    // MARK: A descriptor for each source

    /// One after the other, and on threads of their own, for the descriptors to be enough.
    private static func crowdOfSource1s(_ rounds: Int) throws -> [[String]] {
        let event = cb_event()
        defer { close(event) }
        let ours = try PlainThread.run {
            let (one, crowd) = (OurLoop(mode: "one"), OurLoop(mode: "crowd"))
            try one.addSource1(event)
            for _ in 0..<source1s { try crowd.addSource1(event) }
            return try medians(
                rounds: rounds, [{ try crowd.nanosecondsAPass(5000) }, { try one.nanosecondsAPass(5000) }])
        }
        let theirs = try PlainThread.run {
            let crowd = CFLoop(mode: "crowd")
            for _ in 0..<source1s { try crowd.addSource1(event) }
            return try medians(rounds: rounds, [{ try crowd.nanosecondsAPass(20) }])[0]
        }
        return [
            Contest.line(ours[0], "ours with one", ours[1], .atMost(1.2)),
            Contest.line(ours[0], "CFRunLoop", theirs),
        ]
    }

    private static func raiseDescriptorLimit() {
        var limit = rlimit()
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        getrlimit(resource, &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(resource, &limit)
    }

    /// As many as wanted, or as there are descriptors for.
    private static var source1s: Int {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return min(10_000, Int(clamping: limit.rlim_cur) - 200)
    }

    // MARK: What is left, and what is taken

    private static func leaks(_: Int) throws -> [[String]] {
        let (ourRuns, theirRuns) = (100_000, 5000)
        let (ours, theirs) = (try Leaks.ofOurs(runs: ourRuns), try Leaks.ofCF(runs: theirRuns))
        func line(_ what: String, _ ours: Int, _ theirs: Int) -> [String] {
            [
                "\(ours) \(what)", "CFRunLoop", "\(theirs) \(what)", "",
                Limit.atMost(0).verdict(Double(ours)),
            ]
        }
        return [
            ["\(whole(ourRuns)) runs", "CFRunLoop", "\(whole(theirRuns)) runs"],
            line("threads", ours.threads, theirs.threads),
            line("descriptors", ours.descriptors, theirs.descriptors),
            [
                "\(formatted(ours.microsecondsARun, digits: 1)) µs each", "CFRunLoop",
                "\(formatted(theirs.microsecondsARun, digits: 1)) µs each",
            ],
        ]
    }

    private static func whole(_ number: Int) -> String { formatted(Double(number), digits: 0) }

    private static func heap(
        _ what: String, _ measure: @escaping @Sendable ((OurLoop, CFLoop)) throws -> (Double, Double)
    ) -> LoopRow {
        LoopRow("heap of \(what), bytes") { _ in
            let (ours, theirs) = try measure((OurLoop(mode: "heap"), CFLoop(mode: "heap")))
            return [Contest.line(ours, "CFRunLoop", theirs)]
        }
    }

    private static func prepared(_ loop: some LoopContender) throws {
        loop.addSource0()
        try loop.pass()
    }
}
