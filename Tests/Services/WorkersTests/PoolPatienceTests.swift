import Glibc
import OwnThread
import TestSupport
import Testing

@testable import Workers

/// The time that a pool gives its workers.
@Suite(.fewAtATime) struct PoolPatienceTests {
    private let folder = TemporaryFolder()
    private var file: String { folder.path + "/lines" }

    private var lines: [Substring] {
        String(decoding: bytes(ofFile: file), as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
            .dropLast()
    }

    @Test func `a time is over after four looks, and a late look does not count`() {
        let start = ContinuousClock.now
        var patience = Patience(.seconds(4), from: start)
        #expect(patience.nextLook == start + .seconds(1))
        // Too early to be a look.
        let early = (1...9).map { patience.isOver(at: start + .milliseconds(100 * $0)) }
        #expect(!early.contains(true))
        #expect((1...4).map { patience.isOver(at: start + .seconds($0)) } == [false, false, false, true])

        // Stopped from the third second to the twentieth.
        patience = Patience(.seconds(4), from: start)
        #expect(
            [1, 2, 3, 20, 21].map { patience.isOver(at: start + .seconds($0)) } == [false, false, false, false, true])

        // Late by less than a look.
        patience = Patience(.seconds(4), from: start)
        #expect([1, 2, 3, 4.9].map { patience.isOver(at: start + .seconds($0)) } == [false, false, false, true])

        patience = Patience(.zero, from: start)
        #expect((1...4).map { _ in patience.isOver(at: start) } == [false, false, false, true])
    }

    /// A stopped pool answers no check-in.
    @Test func `workers that start while their pool is stopped wait for it`() async throws {
        let helper = Child(
            ["\(Child.folder)/WorkersTestHelper", "late", file], environment: ["PORTS_DIRECTORY": folder.path])
        var workers: Set<pid_t> = []
        #expect(
            await waitUntil {
                // Before a child becomes the guard of the groups, it looks like the helper.
                workers = Set(children(of: helper.pid, ": worker "))
                return !workers.isEmpty
            })
        helper.stop()
        // Longer than other programs wait for the launcher's name.
        let end = ContinuousClock.now + .seconds(6)
        #expect(await waitUntil { .now > end })
        helper.signal(SIGCONT)
        #expect(await waitUntil { lines.last.map { $0.split(separator: " ").count == 4 } ?? false })
        let last = Set(lines.last.map { $0.split(separator: " ").compactMap { pid_t($0) } } ?? [])
        #expect(workers.isSubset(of: last), "\(workers) have started, and \(last) work")
    }

    @Test func `a pool that was stopped kills no worker that is well`() async throws {
        let helper = Child(
            ["\(Child.folder)/WorkersTestHelper", "late", file], environment: ["PORTS_DIRECTORY": folder.path])
        #expect(await waitUntil { lines.count > 3 })
        let workers = try #require(lines.last)
        #expect(workers.split(separator: " ").count == 4)
        for _ in 0..<Scale.count(3, long: 30) {
            helper.stop()
            // Longer than the pool waits for a worker.
            let end = ContinuousClock.now + .milliseconds(600)
            #expect(await waitUntil { .now > end })
            let count = lines.count
            helper.signal(SIGCONT)
            try #require(await waitUntil { lines.count > count + 10 })
            #expect(lines.last == workers)
        }
    }
}
