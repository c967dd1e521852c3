import CBench
import Glibc
import RunLoops

/// Compares the run loop with Foundation's, with SwiftNIO's where that has the counterpart, and with the bare kernel.
enum LoopBenchmarks {
    static var rows: [Row] {
        [
            row("a pass, timeout 0, one Source0") {
                idlePass(.atMost(0.25)) { $0.addSource0() }
            },
            row("a pass, timeout 0, one Source1") {
                let event = cb_event()
                // One question to the kernel is most of it.
                return try idlePass(.atMost(0.3)) { try $0.addSource1(event) }
            },
            row("the same, 10,000 Source0s and timers") {
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
                    .nanoseconds, ours: { try crowd.nanosecondsAPass(5000) },
                    Contestant("ours with one", .atMost(1.2)) { try one.nanosecondsAPass(5000) },
                    Contestant("CFRunLoop") { try foundation.nanosecondsAPass(20) })
            },
            row("the same, \(formatted(Double(source1s), digits: 0)) Source1s", contest: crowdOfSource1s),
            blockThereAndBack(.apart),
            blockThereAndBack(.together),
            blocksOneWay("blocks one way, one producer", producers: 1, .apart, timesNIO: 2),
            blocksOneWay("blocks one way, four producers", producers: 4, .apart, timesNIO: 1.8),
            blocksOneWay("blocks one way, one producer", producers: 1, .together, timesNIO: 1.4),
            blocksOneWay("blocks one way, four producers", producers: 4, .together, timesNIO: 1.4),
            row("add, invalidate one of 10,000 timers") {
                let (ours, foundation) = (OurLoop(mode: "timers"), CFLoop(mode: "timers"))
                ours.addFarTimers(10_000)
                foundation.addFarTimers(10_000)
                return Contest(
                    .microseconds, ours: { ours.microsecondsATimer(1000) },
                    Contestant("CFRunLoop", .atMost(0.1)) { foundation.microsecondsATimer(500) })
            },
            row("10,000 timers due at once") {
                let (ours, foundation) = (OurLoop(mode: "due"), CFLoop(mode: "due"))
                return Contest(
                    .milliseconds, ours: { try ours.millisecondsToFire(10_000) },
                    Contestant("CFRunLoop", .atMost(0.3)) { try foundation.millisecondsToFire(10_000) })
            },
            // The watch reads the kernel's coarse clock once a pass, and the recording the processor's counter at each
            // event. A pass that finds nothing to do takes half a microsecond, so that they show most here.
            row("a pass, one Source1, watched") {
                let (alone, watched) = (try WatchedPasses(isWatched: false), try WatchedPasses(isWatched: true))
                return Contest(
                    .nanoseconds, ours: { try watched.nanosecondsAPass(20_000) },
                    Contestant("not watched", .atMost(1.25)) { try alone.nanosecondsAPass(20_000) })
            },
            row("a wake-up and a block, watched") {
                let (alone, watched) = (try Bounce<OurThread>(.together), try Bounce<WatchedThread>(.together))
                return Contest(
                    .microseconds, ours: { watched.microsecondsATrip(3000) },
                    Contestant("not watched", .atMost(1.02)) { alone.microsecondsATrip(3000) })
            },
            row("a pass, one Source1, recorded") {
                let (alone, recorded) = (try WatchedPasses(), try WatchedPasses(isRecorded: true))
                return Contest(
                    .nanoseconds, ours: { try recorded.nanosecondsAPass(20_000) },
                    Contestant("not recorded", .atMost(1.5)) { try alone.nanosecondsAPass(20_000) })
            },
            row("a wake-up and a block, recorded") {
                let (alone, recorded) = (try Bounce<OurThread>(.together), try Bounce<RecordedThread>(.together))
                return Contest(
                    .microseconds, ours: { recorded.microsecondsATrip(3000) },
                    Contestant("not recorded", .atMost(1.1)) { alone.microsecondsATrip(3000) })
            },
            row("1,000 runs with a timeout", contest: leaks),
            heap("a loop") { _ in
                try Heap.ofLoop { try prepared(OurLoop(mode: "heap")) }
            } theirs: { _ in
                try Heap.ofLoop { try prepared(CFLoop(mode: "heap")) }
            },
            heap("an idle Source0", ours: Heap.ofSource0, theirs: Heap.ofSource0),
            heap("an idle Source1", ours: Heap.ofSource1, theirs: Heap.ofSource1),
            heap("a timer", ours: Heap.ofTimer, theirs: Heap.ofTimer),
        ]
    }

    private static func row(
        _ work: String, _ placement: Placement? = nil, contest: @escaping @Sendable () throws -> Contest
    ) -> Row {
        Row(part: "run loop", work: work, placement: placement, contest: contest)
    }

    private static func idlePass(
        _ limit: Limit, _ add: (any LoopContender) throws -> Void
    ) rethrows -> Contest {
        let (ours, foundation) = (OurLoop(mode: "idle"), CFLoop(mode: "idle"))
        try add(ours)
        try add(foundation)
        return Contest(
            .nanoseconds, ours: { try ours.nanosecondsAPass(5000) },
            Contestant("CFRunLoop", limit) { try foundation.nanosecondsAPass(5000) })
    }

    private static func blockThereAndBack(_ placement: Placement) -> Row {
        row("block there and back", placement) {
            let (ours, foundation) = (try Bounce<OurThread>(placement), try Bounce<CFThread>(placement))
            let (nio, floor) = (try Bounce<NIOThread>(placement), try EventPair(placement))
            let trips = 1500
            return Contest(
                .microseconds, ours: { ours.microsecondsATrip(trips) },
                Contestant("CFRunLoop", .atMost(1)) { foundation.microsecondsATrip(trips) },
                Contestant("SwiftNIO") { nio.microsecondsATrip(trips) },
                Contestant("eventfd + epoll", .atMost(1.3)) { try floor.microsecondsATrip(trips) })
        }
    }

    private static func blocksOneWay(
        _ name: String, producers: Int, _ placement: Placement, timesNIO: Double
    ) -> Row {
        row(name, placement) {
            let senders = try SenderThreads(producers, placement)
            let (ours, foundation) = (try Stream<OurThread>(placement), try Stream<CFThread>(placement))
            let nio = try Stream<NIOThread>(placement)
            return Contest(
                .blocksASecond, ours: { try ours.rate(100_000, from: senders) },
                Contestant("CFRunLoop", .atLeast(4)) { try foundation.rate(40_000, from: senders) },
                Contestant("SwiftNIO", .atLeast(timesNIO)) { try nio.rate(100_000, from: senders) })
        }
    }

    // MARK: A descriptor for each source

    /// One after the other, and on threads of their own, for the descriptors to be enough.
    private static func crowdOfSource1s() throws -> Contest {
        func measured<Loop: LoopContender & SendableMetatype>(_: Loop.Type, sources: Int, passes: Int) throws -> Double
        {
            try PlainThread.run {
                let event = cb_event()
                defer { close(event) }
                let loop = Loop(mode: "crowd")
                for _ in 0..<sources { try loop.addSource1(event) }
                try loop.pass()
                return try loop.nanosecondsAPass(passes)
            }
        }
        var contest = Contest(
            .nanoseconds, ours: { try measured(OurLoop.self, sources: source1s, passes: 100_000) },
            Contestant("ours with one", .atMost(1.2)) { try measured(OurLoop.self, sources: 1, passes: 100_000) },
            Contestant("CFRunLoop") { try measured(CFLoop.self, sources: source1s, passes: 100) })
        contest.isRepeated = false
        return contest
    }

    /// As many as wanted, or as there are descriptors for.
    private static var source1s: Int {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return min(10_000, Int(clamping: limit.rlim_cur) - 200)
    }

    // MARK: What is left, and what is taken

    private static func leaks() -> Contest {
        func contestant(_ name: String, runs: Int, _ limits: [[Limit]] = [], leaks: @escaping (Int) throws -> Leaks)
            -> Contestant
        {
            Contestant(name, limits: limits) {
                let leaks = try leaks(runs)
                let thousands = Double(runs) / 1000
                return [
                    Double(leaks.threads) / thousands, Double(leaks.descriptors) / thousands, leaks.microsecondsARun,
                ]
            }
        }
        return Contest(
            quantities: [
                Quantity(.count, suffix: " leave threads"), Quantity(.count, suffix: " leave descriptors"),
                Quantity(.microseconds, suffix: ", each"),
            ],
            contestants: [
                contestant("ours", runs: 100_000, leaks: Leaks.ofOurs),
                contestant("CFRunLoop", runs: 5000, [[.atMost(0)], [.atMost(0)]], leaks: Leaks.ofCF),
            ], isRepeated: false)
    }

    private static func heap(
        _ what: String, ours: @escaping @Sendable (OurLoop) throws -> Double,
        theirs: @escaping @Sendable (CFLoop) throws -> Double
    ) -> Row {
        row("heap of \(what)") {
            var contest = Contest(
                .bytes, ours: { try ours(OurLoop(mode: "heap")) },
                Contestant("CFRunLoop") { try theirs(CFLoop(mode: "heap")) })
            contest.isRepeated = false
            return contest
        }
    }

    private static func prepared(_ loop: some LoopContender) throws {
        loop.addSource0()
        try loop.pass()
    }
}
