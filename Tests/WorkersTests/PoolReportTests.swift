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
        func pools() async throws -> [PortService.Pool] { try await port.sendRight.service(before: .patience).pools }
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
}
