import Foundation
import Oracle
import RunLoops
import TestSupport
import Testing

/// Scripts made from seeds on Foundation's run loop and on ours, in helper processes.
///
/// `ORACLE_SCRIPTS` says how many to play, instead of as many as fit in 20 s; `ORACLE_SEED` the first one's seed.
@Suite struct GeneratedScriptTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let wanted = environment["ORACLE_SCRIPTS"].flatMap { UInt64($0) }
    private static let firstSeed = environment["ORACLE_SEED"].flatMap { UInt64($0) } ?? 0
    /// So many scripts a process. The main thread's loops keep the modes of all.
    private static let batches: [String: UInt64] = ["secondary": 200, "main": 40]

    @Test(.enabled(if: !isThreadSanitized), .timeLimit(.minutes(60)))
    func `both loops tell the same story of generated scripts`() async {
        let deadline = Self.wanted == nil ? MonotonicInstant.now + .seconds(20) : .now + .seconds(3500)
        let next = Shared(UInt64(0))
        let tallies = Shared<[String: Tally]>([:])
        // They mostly sleep. So they play beside all other tests, and take no turn from those with threads of their own.
        let workers = (0..<6).map { worker in
            let thread = worker % 3 < 2 ? "secondary" : "main"
            return Helper {
                Self.work(thread, next, until: deadline) { tally in
                    tallies.withLock { $0[thread, default: Tally()].add(tally) }
                }
            }
        }
        for worker in workers { while await worker.ended() == nil {} }
        for (thread, tally) in tallies.withLock({ $0 }).sorted(by: { $0.key < $1.key }) {
            print(Self.summary(of: tally, thread))
            #expect(tally.equal > 0)
            for mismatch in tally.mismatches { Issue.record("\(mismatch.report)") }
        }
    }

    /// A mode that becomes common during a run. Both loops decide at a run's begin whether it serves the main queue.
    @Test(.enabled(if: !isThreadSanitized), arguments: [35607, 42285])
    func `both loops tell the same story of scripts that differed once`(_ seed: UInt64) {
        let script = GeneratedScript(seed: seed, onMain: true)
        #expect("\(script)".contains("make m1 common"), "the generator has changed, and needs other seeds")
        let tally = Self.tally(of: "main", seed, 1, 60, slot: 25)
        #expect(tally.equal == 1)
        for mismatch in tally.mismatches { Issue.record("\(mismatch.report)") }
    }

    private static func summary(of tally: Tally, _ thread: String) -> String {
        let parted = tally.parted.sorted { $0.value > $1.value }.map { "\n    \($0.value): \($0.key)" }.joined()
        return "generated scripts on \(thread) threads: \(tally.count) played, \(tally.equal) equal "
            + "(\(tally.retried) of them when played again), \(tally.mismatches.count) different, "
            + "\(tally.parted.values.reduce(0, +)) equal up to a known difference\(parted)"
    }

    private static func work(
        _ thread: String, _ next: Shared<UInt64>, until deadline: MonotonicInstant, tell: (Tally) -> Void
    ) {
        let batch = batches[thread] ?? 1
        while !deadline.hasPassed {
            let index = next.withLock { next in
                defer { next += batch }
                return next
            }
            if let wanted, index >= wanted { break }
            let seconds = max(1, Int(MonotonicInstant.now.duration(to: deadline) / .seconds(1)))
            let tally = tally(of: thread, firstSeed + index, batch, seconds)
            tell(tally.mismatches.isEmpty ? tally : confirmed(tally, thread))
        }
    }

    /// Without the mismatches that a fresh process, in which no other script has been played, does not find again when
    /// it plays slowly.
    private static func confirmed(_ tally: Tally, _ thread: String) -> Tally {
        var confirmed = tally
        confirmed.mismatches = []
        for mismatch in tally.mismatches { confirmed.add(Self.tally(of: thread, mismatch.seed, 1, 60, slot: 25)) }
        return confirmed
    }

    /// What the helper prints last.
    private static func tally(
        of thread: String, _ seed: UInt64, _ count: UInt64, _ seconds: Int, slot milliseconds: Int = 5
    ) -> Tally {
        let run = Run(
            ["\(Child.folder)/OracleHelper", thread, "\(seed)", "\(count)", "\(seconds)"],
            environment: ["ORACLE_SLOT": "\(milliseconds)"])
        run.child.wait(before: .distantFuture)
        let lines = String(decoding: run.output, as: UTF8.self).split(separator: "\n")
        do {
            return try JSONDecoder().decode(Tally.self, from: Data((lines.last ?? "").utf8))
        } catch {
            var tally = Tally()
            tally.mismatches = [.init(seed: seed, report: "the helper failed on \(thread) \(seed): \(error), \(lines)")]
            return tally
        }
    }
}
