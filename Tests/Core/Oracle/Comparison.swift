import Glibc
import RunLoops
import Synchronization
import TestSupport

/// Whether both loops tell the same story of a generated script.
package enum Comparison: Sendable {
    case equal
    /// Equal up to a point from which on both may be right, or Foundation's is known to be wrong.
    case equalUntil(Parting)
    case different(theirs: [String], ours: [String])

    /// Another loop drives ours in every other script.
    package static func play(_ script: GeneratedScript, onMain: Bool) -> Comparison {
        let isDriven = script.seed % 2 == 1
        let (theirs, ours) =
            onMain
            ? (playHere(script) { CFStage() }, playHere(script) { OurStage(isDriven: isDriven) })
            : (playOnThread(script) { CFStage() }, playOnThread(script) { OurStage(isDriven: isDriven) })
        let (story, other) = (normalized(theirs.trace), normalized(ours.trace))
        if story == other { return .equal }
        let same = zip(story, other).prefix { $0 == $1 }.count
        let parting = (theirs.partings + ours.partings).sorted { $0.event > $1.event }.first { parting in
            guard same <= parting.event + parting.reason.reach else { return false }
            let (theirs, ours) = (theirs.trace.prefix(parting.event), ours.trace.prefix(parting.event))
            return normalized(Array(theirs)) == normalized(Array(ours))
        }
        return parting.map { .equalUntil($0.reason) } ?? .different(theirs: story, ours: other)
    }

    private typealias Story = (trace: [String], partings: [(event: Int, reason: Parting)])

    private static func playOnThread(_ script: GeneratedScript, on stage: @escaping @Sendable () -> some Stage) -> Story
    {
        let (stage, performance, count) = onThread {
            let stage = stage()
            let performance = Performance(script, on: stage, suffix: "")
            return (stage, performance, performance.play())
        }
        // At the end of the thread Foundation takes its items out in no order.
        let trace = stage.trace.all
        return (trace[..<count] + ["the thread ends"] + trace[count...].sorted(), performance.partings)
    }

    private static let plays = Atomic(0)

    /// On the main thread, whose loops stay: the modes of each play have names of their own.
    private static func playHere(_ script: GeneratedScript, on stage: () -> some Stage) -> Story {
        let suffix = "#\(plays.add(1, ordering: .relaxed).newValue)"
        let stage = stage()
        let performance = Performance(script, on: stage, suffix: suffix)
        let count = performance.play()
        performance.clear()
        let trace = stage.trace.all
        let events = (trace[..<count] + ["the script ends"] + trace[count...].sorted()).map { event in
            event.replacing(suffix, with: "")
        }
        return (events, performance.partings)
    }

    /// Sorted where there is no order, the modes of common items, and with one name for twins.
    private static func normalized(_ trace: [String]) -> [String] {
        var result: [String] = []
        var moves: [String] = []
        // Common items are in the common modes of former plays, too.
        for event in trace where !event.contains("#") {
            // Not those of a walk, which name no mode.
            let verb = [" joins ", " leaves "].first(where: event.contains)
            if let verb, moves.allSatisfy({ $0.contains(verb) }) {
                moves.append(event)
            } else {
                result += moves.sorted()
                moves = verb == nil ? [] : [event]
                if verb == nil { result.append(event.hasPrefix("twin") ? event.filter { $0 != "'" } : event) }
            }
        }
        return result + moves.sorted()
    }
}

/// What came of many scripts.
package struct Tally: Sendable, Codable {
    package var equal = 0
    /// How many were equal up to a point, by what is there.
    package var parted: [String: Int] = [:]
    /// How many differed, but not again: a busy machine makes two dates one.
    package var retried = 0
    package var mismatches: [Mismatch] = []

    package struct Mismatch: Sendable, Codable {
        package let seed: UInt64
        package let report: String

        package init(seed: UInt64, report: String) {
            self.seed = seed
            self.report = report
        }
    }

    package init() {}

    package var count: Int { equal + parted.values.reduce(0, +) + mismatches.count }

    package mutating func add(_ other: Tally) {
        equal += other.equal
        parted.merge(other.parted, uniquingKeysWith: +)
        retried += other.retried
        mismatches += other.mismatches
    }

    /// Plays the scripts of the seeds until the time is over. A busy machine makes two dates one now and then, so that
    /// only what differs again and again is a mismatch. It is told cut down as far as time allows.
    package mutating func play(_ seeds: Range<UInt64>, onMain: Bool, until deadline: MonotonicInstant) {
        for seed in seeds where !deadline.hasPassed && mismatches.count < 3 {
            let script = GeneratedScript(seed: seed, onMain: onMain)
            switch Comparison.play(script, onMain: onMain) {
            case .equal: equal += 1
            case .equalUntil(let parting): parted[parting.rawValue, default: 0] += 1
            case .different:
                if Self.differs(script, onMain: onMain, tries: 12) {
                    mismatches.append(.init(seed: seed, report: Self.report(script, onMain: onMain)))
                } else {
                    retried += 1
                    equal += 1
                }
            }
        }
    }

    private static func differs(_ script: GeneratedScript, onMain: Bool, tries: Int) -> Bool {
        for attempt in 0..<tries {
            // The machine may be less busy then.
            usleep(UInt32(attempt * attempt) * 2_000)
            guard case .different = Comparison.play(script, onMain: onMain) else { return false }
        }
        return true
    }

    private static func report(_ script: GeneratedScript, onMain: Bool) -> String {
        let deadline = MonotonicInstant.now + .seconds(20)
        var shrunk = script
        while let less = shrunk.reductions.first(where: { less in
            !deadline.hasPassed && differs(less, onMain: onMain, tries: 3)
        }) {
            shrunk = less
        }
        for script in [shrunk, script] {
            for _ in 0..<4 {
                guard case .different(let theirs, let ours) = Comparison.play(script, onMain: onMain) else { continue }
                let same = zip(theirs, ours).prefix { $0 == $1 }.count
                return "seed \(script.seed) on the \(onMain ? "main" : "secondary") thread:\n\(script)\n"
                    + "Foundation's: \(theirs.prefix(same).suffix(24)) >>> \(theirs.dropFirst(same).prefix(8))\n"
                    + "ours: \(ours.prefix(same).suffix(24)) >>> \(ours.dropFirst(same).prefix(8))\n"
            }
        }
        return "seed \(script.seed) differs now and then:\n\(script)\n"
    }
}
