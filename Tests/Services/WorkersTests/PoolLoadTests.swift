import Glibc
import OwnThread
import TestSupport
import Testing
import WorkersTestHelper

@testable import Workers

/// Workers that end in all ways, while many ask for them.
@Suite(.fewAtATime) struct PoolLoadTests {
    private let folder = TemporaryFolder()

    /// The ways of a request, each as often as it is here.
    private static let ways: [Work.Kind] =
        [.answer, .answer, .answer, .answer, .fail] + (Scale.isLong ? [.hang, .stop, .grow] : [])
        + [.segfault, .trap, .kill, .exit]

    private struct Counts {
        var ends = 0
        var answers = 0
        var wrong: [String] = []
        var pids: Set<Int32> = []
    }

    @Test
    func `each request ends in its answer or one error, and no worker handles it more often than its caller allows`()
        async throws
    {
        var options = WorkerPool.Options()
        (options.startTime, options.hangTime) = (.seconds(60), .milliseconds(200))
        options.memoryLimit = 300 << 20
        options.intensity.most = .max
        let program = WorkerProcess.Configuration(
            "\(Child.folder)/WorkersTestHelper", environment: .inherit.updating(["SWIFT_BACKTRACE": "enable=no"]),
            standardError: .discard)
        let pool = try WorkerPool(
            program, count: 4, name: "pool", options: options, nameServer: PortNameServer(directory: folder.path))
        async let running: Void = pool.run()
        let (ends, record) = (Scale.isLong ? 1000 : 40, folder.path + "/record")
        _ = try await pool.request(Work(.answer), timeout: .seconds(60))
        let descriptors = entries(of: "/proc/self/fd")?.count ?? 0
        let counts = Shared(Counts())
        let numbers = Shared(0)
        await withDiscardingTaskGroup { group in
            for seed in 0..<64 {
                group.addTask {
                    var random = SplitMix64(seed: UInt64(seed))
                    while counts.withLock({ $0.ends < ends && $0.wrong.isEmpty }) {
                        let number = numbers.withLock { numbers in
                            numbers += 1
                            return numbers
                        }
                        let kind = Self.ways.randomElement(using: &random) ?? .answer
                        await ask(pool, Work(kind, number, record: record), counts)
                    }
                }
            }
        }
        let found = counts.withLock { $0 }
        #expect(found.wrong.isEmpty, "\(found.wrong.prefix(5))")
        #expect(found.answers > 0 && found.ends >= ends)
        var handled: [Substring: Int] = [:]
        for number in String(decoding: bytes(ofFile: record), as: UTF8.self).split(separator: "\n") {
            handled[number, default: 0] += 1
        }
        // Those with even numbers may be sent again once.
        #expect(handled.allSatisfy { $0.value <= ((Int($0.key) ?? 1) % 2 == 0 ? 2 : 1) })
        if Scale.isLong { #expect(entries(of: "/proc/self/fd")?.count ?? 0 <= descriptors + 8) }
        await pool.stop()
        try await running
        #expect(found.pids.allSatisfy(isGone))
        func left() -> [String] { entries(of: folder.path)?.filter { $0 != "names" && $0 != "record" } ?? [] }
        // This process's own. Of a worker that was killed before anybody knew it, nobody else sweeps what it has left.
        let names = PortNameServer(directory: folder.path)
        let isSwept = await waitUntil { (try? names.sweep()) != nil && left().count == 1 }
        #expect(isSwept, "\(left().map { [$0] + (entries(of: folder.path + "/" + $0) ?? []) })")
    }

    private func ask(_ pool: WorkerPool, _ work: Work, _ counts: Shared<Counts>) async {
        let mayHang = [Work.Kind.hang, .stop].contains(work.kind)
        do {
            let done = try await pool.request(
                work, timeout: mayHang ? .milliseconds(500) : .seconds(120), retries: work.number % 2 == 0 ? 1 : 0)
            counts.withLock { counts in
                counts.answers += 1
                counts.pids.insert(done.pid)
                if work.kind != .answer || done.number != work.number { counts.wrong.append("\(work) got \(done)") }
            }
        } catch {
            counts.withLock { counts in
                switch (error, work.kind) {
                case (is Work.Refused, .fail): counts.answers += 1
                case (WorkerPoolError.timedOut, .hang), (WorkerPoolError.timedOut, .stop): counts.ends += 1
                case (WorkerPoolError.workerEnded(_, let end), _) where Self.isCause(end, of: work.kind):
                    counts.ends += 1
                default: counts.wrong.append("\(work) got \(error)")
                }
            }
        }
    }

    private static func isCause(_ end: WorkerEnd, of kind: Work.Kind) -> Bool {
        switch (kind, end) {
        case (.segfault, .ended(.signaled(SIGSEGV))), (.kill, .ended(.signaled(SIGKILL))), (.exit, .ended(.exited(7))):
            true
        case (.trap, .ended(.signaled)), (.grow, .memoryLimit), (.hang, .hung), (.stop, .hung): true
        default: false
        }
    }
}
