import Glibc
import RunLoops

/// Whether both loops tell the same story of a generated script.
package enum Comparison: Sendable {
    case equal
    /// Equal up to a point from which on both may be right, or Foundation's is known to be wrong.
    case equalUntilParting
    case different(theirs: [String], ours: [String])

    package static func play(_ script: GeneratedScript, onMain: Bool) -> Comparison {
        let (theirs, ours) =
            onMain
            ? (playHere(script) { CFStage() }, playHere(script) { OurStage() })
            : (playOnThread(script) { CFStage() }, playOnThread(script) { OurStage() })
        if normalized(theirs.trace) == normalized(ours.trace) { return .equal }
        guard let parting = [theirs.parting, ours.parting].compactMap({ $0 }).min() else {
            return .different(theirs: normalized(theirs.trace), ours: normalized(ours.trace))
        }
        if normalized(Array(theirs.trace.prefix(parting))) == normalized(Array(ours.trace.prefix(parting))) {
            return .equalUntilParting
        }
        return .different(theirs: normalized(theirs.trace), ours: normalized(ours.trace))
    }

    private typealias Story = (trace: [String], parting: Int?)

    private static func playOnThread(_ script: GeneratedScript, on stage: @escaping @Sendable () -> some Stage) -> Story
    {
        let (stage, performance, count) = onThread {
            let stage = stage()
            let performance = Performance(script, on: stage, suffix: "")
            performance.play()
            return (stage, performance, stage.trace.all.count)
        }
        // At the end of the thread Foundation takes its items out in no order.
        let trace = stage.trace.all
        return (trace[..<count] + ["the thread ends"] + trace[count...].sorted(), performance.parting)
    }

    /// On the main thread, whose loops stay: the modes of each play have names of their own.
    private static func playHere(_ script: GeneratedScript, on stage: () -> some Stage) -> Story {
        let suffix = "#\(script.seed)"
        let stage = stage()
        let performance = Performance(script, on: stage, suffix: suffix)
        performance.play()
        let count = stage.trace.all.count
        performance.clear()
        let trace = stage.trace.all
        // Common items are in the common modes of former plays, too.
        let events = (trace[..<count] + ["the script ends"] + trace[count...].sorted()).map { event in
            event.replacing(suffix, with: "")
        }
        return (events, performance.parting)
    }

    /// Sorted where there is no order: the modes of common items, and timers due at the same time.
    private static func normalized(_ trace: [String]) -> [String] {
        var result: [String] = []
        var group: [String] = []
        var key = ""
        for event in trace where !event.contains("#") {
            let isMove = event.contains(" joins ") || event.contains(" leaves ")
            let next = isMove ? "move" : event.hasPrefix("twin") ? String(event.prefix { $0 != "'" && $0 != " " }) : ""
            if next != key || next.isEmpty {
                result += group.sorted()
                group = []
            }
            key = next
            group.append(event)
        }
        return result + group.sorted()
    }
}

/// What came of many scripts.
package struct Tally: Sendable {
    package var equal = 0
    package var parted = 0
    package var retried = 0
    package var different = 0

    package init() {}

    /// Plays the scripts of the seeds until the time is over. A busy machine makes two dates one now and then, so that
    /// only what differs again and again is a mismatch. It is printed, cut down as far as time allows.
    package mutating func play(_ seeds: Range<UInt64>, onMain: Bool, until deadline: MonotonicInstant) {
        for seed in seeds where !deadline.hasPassed && different < 3 {
            let script = GeneratedScript(seed: seed, onMain: onMain)
            switch Comparison.play(script, onMain: onMain) {
            case .equal: equal += 1
            case .equalUntilParting: parted += 1
            case .different:
                retried += 1
                if Self.differs(script, onMain: onMain, tries: 6) {
                    different += 1
                    print(Self.report(script, onMain: onMain))
                    fflush(nil)
                } else {
                    equal += 1
                }
            }
        }
    }

    private static func differs(_ script: GeneratedScript, onMain: Bool, tries: Int) -> Bool {
        for attempt in 0..<tries {
            // The machine may be less busy then.
            usleep(UInt32(attempt) * 20_000)
            guard case .different = Comparison.play(script, onMain: onMain) else { return false }
        }
        return true
    }

    private static func report(_ script: GeneratedScript, onMain: Bool) -> String {
        let deadline = MonotonicInstant.now + .seconds(10)
        var shrunk = script
        while let less = shrunk.reductions.first(where: { less in
            !deadline.hasPassed && differs(less, onMain: onMain, tries: 2)
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
