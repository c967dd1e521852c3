import Foundation
import Oracle
import RunLoops
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

    @Test(.timeLimit(.minutes(60))) func `both loops tell the same story of generated scripts`() async {
        let deadline = Self.wanted == nil ? MonotonicInstant.now + .seconds(20) : .now + .seconds(3500)
        let next = Shared(UInt64(0))
        let summary = Shared<[String: [Int]]>([:])
        let reports = Shared<[String]>([])
        await withTaskGroup { group in
            // They mostly sleep.
            for worker in 0..<5 {
                let thread = worker < 3 ? "secondary" : "main"
                group.addTask {
                    await Self.work(thread, next, until: deadline) { numbers, texts in
                        summary.withLock { summary in
                            summary[thread] = zip(summary[thread] ?? [0, 0, 0, 0], numbers).map(+)
                        }
                        reports.withLock { $0 += texts }
                    }
                }
            }
        }
        for (thread, numbers) in summary.withLock({ $0 }).sorted(by: { $0.key < $1.key }) {
            print(
                "generated scripts on \(thread) threads: \(numbers[0]) equal, \(numbers[1]) equal as far as they must be, "
                    + "\(numbers[2]) played again, \(numbers[3]) different")
            #expect(numbers[0] > 0)
        }
        for report in reports.withLock({ $0 }) { Issue.record("\(report)") }
    }

    private static func work(
        _ thread: String, _ next: Shared<UInt64>, until deadline: MonotonicInstant,
        tell: @escaping @Sendable ([Int], [String]) -> Void
    ) async {
        let batch = batches[thread] ?? 1
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                while !deadline.hasPassed {
                    let index = next.withLock { next in
                        defer { next += batch }
                        return next
                    }
                    if let wanted, index >= wanted { break }
                    let seconds = max(1, Int(MonotonicInstant.now.duration(to: deadline) / .seconds(1)))
                    let lines = output(of: [thread, "\(firstSeed + index)", "\(batch)", "\(seconds)"])
                    let numbers = lines.last?.split(separator: " ").compactMap { Int($0) } ?? []
                    guard numbers.count == 4 else {
                        tell([0, 0, 0, 1], ["the helper died from seed \(firstSeed + index) on: \(lines)"])
                        break
                    }
                    tell(numbers, numbers[3] > 0 ? [lines.dropLast().joined(separator: "\n")] : [])
                }
                continuation.resume()
            }
        }
    }

    /// What the helper prints, which lies beside the test program.
    private static func output(of arguments: [String]) -> [String] {
        let pipe = Foundation.Pipe()
        let process = Process()
        process.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
            .deletingLastPathComponent().appending(path: "OracleHelper")
        process.arguments = arguments
        process.standardOutput = pipe
        do { try process.run() } catch { return ["\(error)"] }
        let data = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}
