import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// All of it mixed, for as many minutes as `SOAK_MINUTES` says, or thirty.
@Suite(.ownThread, .enabled(if: Scale.isLong)) struct SoakTests {
    private static let minutes = getenv("SOAK_MINUTES").flatMap { Int(String(cString: $0)) } ?? 30

    private typealias Scenario = (name: String, run: @Sendable (Sandbox) throws -> Void)

    /// The scenarios of a row take turns, and the rows run at once.
    private static let scenarios: [[Scenario]] = [
        [
            ("owners killed", { _ = try KillTests.killOwners(2, haveForked: false, $0) }),
            ("forked owners killed", { _ = try KillTests.killOwners(2, haveForked: true, $0) }),
            ("ports found and lost", { try KillTests.findDoomed(5, drawnSeed(), $0) }),
            ("stopped processes called in vain", { try LivenessTests.callInVain(callers: 12, $0) }),
            ("forks in handshakes", { try LivenessTests(sandbox: $0).forkInHandshake(drawnSeed() % 2 == 0) }),
            (
                "names left by the killed",
                { _ = try KillTests.killRegistrars(5, at: "register", drawnSeed(), $0) }
            ),
        ],
        [
            ("floods of threads", { _ in try LoadTests.threads(8, each: 20_000) }),
            ("floods of processes", { try LoadTests.processes(4, each: 10_000, $0) }),
            ("floods beside a stuck loop", { try LoadTests.stuckLoop(each: 5_000, $0) }),
        ],
        [
            ("senders killed", { try LoadTests.killedSenders(4, each: 5_000, kills: 5, drawnSeed(), $0) }),
            ("ports ended", { try EndingTests.endPorts(3, $0) }),
            ("endings in any order", { EndingTests.orders(50, $0) }),
        ],
        [
            ("full ports", { try BackPressureTests.bounded(senders: 2, size: 1000, limit: 200, $0) }),
            ("deadlines", { try BackPressureTests.deadlines(rounds: 5, $0) }),
            ("logs that nobody reads", { try LogTests(sandbox: $0).`a log that nobody reads holds up nobody`() }),
            ("dead askers", { _ = try EndingTests.slowAskers(1, requests: 200, $0) }),
        ],
        [
            ("races", { try NameRaceTests.race(10, rounds: 3, $0) }),
            ("contests", { try NameRaceTests.contend(5, times: 5, $0) }),
            ("exits", { _ in for way in ExitTests.ways { try ExitTests.leave(way, Sandbox(sharedMemory: .never)) } }),
        ],
    ]

    @Test(.timeLimit(.minutes(24 * 60))) func `memory and descriptors stay flat, and nothing is lost`() throws {
        Scale.isMixing.withLock { $0 = true }
        defer { Scale.isMixing.withLock { $0 = false } }
        // One registry directory each, as a process has: it keeps its control socket there.
        let rows = Self.scenarios.map { row in row.map { (scenario: $0, sandbox: Sandbox()) } }
        var settled: (heap: Int, descriptors: Int)?
        for minute in 1...max(Self.minutes, 1) {
            let end = ContinuousClock.now + .seconds(60)
            let runs = Shared<[String: Int]>([:])
            let messages = Streams.messages.withLock { $0 }
            let workers = rows.map { row in
                Helper { () -> String? in
                    do {
                        while !end.hasPassed {
                            for (scenario, sandbox) in row where !end.hasPassed {
                                try scenario.run(sandbox)
                                runs.withLock { $0[scenario.name, default: 0] += 1 }
                            }
                        }
                        return nil
                    } catch {
                        return "\(error)"
                    }
                }
            }
            for worker in workers { #expect(worker.value(before: end + .seconds(240)) == .some(nil)) }

            // At rest: what has ended is closed by libzmq's thread, and by ours.
            let most = settled.map { (heap: $0.heap + $0.heap / 10 + 1 << 20, descriptors: $0.descriptors + 8) }
            if let most {
                #expect(waitUntil { heapUse() <= most.heap && openDescriptors() <= most.descriptors })
            }
            let now = (heap: heapUse(), descriptors: openDescriptors())
            let losses = Streams.losses.withLock { $0 }
            #expect(losses == 0)
            print(
                "minute \(minute): \(Streams.messages.withLock { $0 } - messages) messages, \(losses) lost; "
                    + "\(now.heap >> 10) KiB of heap, \(now.descriptors) descriptors; "
                    + runs.withLock { $0.sorted { $0.key < $1.key }.map { "\($0.value) × \($0.key)" } }
                    .joined(separator: ", "))
            fflush(nil)
            // By now, everything is made that is made once.
            if minute == 2 { settled = now }
        }
    }
}
