import Glibc
import OwnThread
import PortsInspection
import TestSupport
import Testing
import WorkersTestHelper

@testable import Ports
@testable import Workers

/// Pools in the answers about a process's ports.
@Suite(.fewAtATime) struct PoolReportTests {
    private let folder = TemporaryFolder()

    @Test func `other processes see the pool while it runs`() async throws {
        // Without the pools of other tests.
        let runtime = PortRuntime(directory: folder.path)
        let port = try MachPort(nameServer: runtime.nameServer)
        func pools() async throws -> [PortInfo.Pool] { try await port.sendRight.info(before: .patience).pools }
        #expect(try await pools().isEmpty)
        var options = WorkerPool.Options()
        (options.startTime, options.spares) = (.seconds(60), 1)
        let program = WorkerProcess.Configuration("\(Child.folder)/WorkersTestHelper", standardError: .discard)
        let pool = try WorkerPool(
            program, count: 2, name: "pool", options: options, nameServer: runtime.nameServer)
        async let running: Void = pool.run()
        #expect(await waitUntil { pool.workers.count == 3 })
        let first = try await pool.request(Work(.answer), timeout: .seconds(60))
        kill(first.pid, SIGKILL)
        #expect(await waitUntil { pool.workers.count == 3 && !pool.workers.contains { $0.pid == first.pid } })
        let seen = try #require(try await pools().first)
        #expect([seen.count, seen.spares, seen.waiting, seen.restarts] == [2, 1, 0, 1] && seen.name == "pool")
        #expect(Set(seen.workers.map(\.pid)) == Set(pool.workers.map(\.pid)))
        #expect(seen.workers.count(where: \.isSpare) == 1)
        await pool.stop()
        try await running
        #expect(try await pools().isEmpty)
    }

    @Test func `counters tell the states of workers, why workers have ended, and how long requests have waited`()
        async throws
    {
        let runtime = PortRuntime(directory: folder.path)
        func counters() async throws -> PortCounters.Pool { try #require(await runtime.counters().pools["pool"]) }
        var options = WorkerPool.Options()
        (options.startTime, options.spares, options.mostRequests) = (.seconds(60), 1, 3)
        let program = WorkerProcess.Configuration("\(Child.folder)/WorkersTestHelper", standardError: .discard)
        let pool = try WorkerPool(program, count: 1, name: "pool", options: options, nameServer: runtime.nameServer)
        async let running: Void = pool.run()
        #expect(await waitUntil { pool.workers.count == 2 })
        var seen = try await counters()
        #expect([seen.idle, seen.busy, seen.spares, seen.missing] == [1, 0, 1, 0])
        #expect(seen.ended.isEmpty && seen.waited == 0)

        let sleeping = Task { try await pool.request(Work(.sleep), timeout: .seconds(600)) }
        #expect(await waitUntil { pool.workers.contains { $0.requestsInProgress == 1 } })
        let waiting = Task { try await pool.request(Work(.answer), timeout: .seconds(600)) }
        #expect(await waitUntil { pool.waitingRequests == 1 })
        seen = try await counters()
        #expect([seen.idle, seen.busy, seen.spares, seen.waiting] == [0, 1, 1, 1])
        let busy = try #require(pool.workers.first { $0.requestsInProgress == 1 })
        kill(busy.pid, SIGKILL)
        _ = await sleeping.result
        _ = try await waiting.value
        #expect(await waitUntil { pool.workers.count == 2 })
        seen = try await counters()
        #expect(seen.ended == ["signaled": 1] && seen.waited == 1 && seen.waitTime > .zero)

        for _ in 0..<2 { _ = try await pool.request(Work(.answer), timeout: .seconds(60)) }
        #expect(await waitUntil { (try? await counters())?.ended["request_limit"] == 1 })
        await pool.stop()
        try await running
        // The counters outlive the run.
        seen = try await counters()
        #expect(seen.ended == ["signaled": 1, "request_limit": 1] && seen.waited == 1)
        #expect([seen.idle, seen.busy, seen.spares, seen.missing] == [0, 0, 0, 0])
    }
}
