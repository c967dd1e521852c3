import Glibc
import OwnThread
import TestSupport
import Testing
import WorkersTestHelper

@testable import Workers

/// The temporary folders of workers.
@Suite(.fewAtATime) struct WorkerFolderTests {
    private let folder = TemporaryFolder()
    /// The folder for those of the workers.
    private let temporary = TemporaryFolder()

    private func withPool(_ count: Int, _ body: (WorkerPool) async throws -> Void) async throws {
        var options = WorkerPool.Options()
        options.startTime = .seconds(60)
        options.temporaryFolder = .own(inside: temporary.path)
        let program = WorkerProcess.Configuration("\(Child.folder)/WorkersTestHelper", standardError: .discard)
        let pool = try WorkerPool(
            program, count: count, name: "pool", options: options, nameServer: PortNameServer(directory: folder.path))
        async let running: Void = pool.run()
        try await body(pool)
        await pool.stop()
        try await running
    }

    private func mode(of path: String) -> mode_t? {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode & 0o777 : nil
    }

    @Test(arguments: [SIGTERM, SIGKILL])
    func `a worker has a folder of its own, which goes with it, whatever is in there`(signal: Int32) async throws {
        try await withPool(2) { pool in
            let (done, other) = try await pool.withWorker(timeout: .seconds(60)) { worker in
                // The other worker, because this one is taken.
                let other = try await pool.request(Work(.fill), timeout: .seconds(60))
                return (try await worker.request(Work(.fill), timeout: .seconds(60)), other)
            }
            let (own, others) = (try #require(done.folder), try #require(other.folder))
            #expect(own != others && own.hasPrefix(temporary.path))
            #expect(mode(of: own) == 0o700)
            kill(done.pid, signal)
            #expect(await waitUntil { access(own, F_OK) != 0 })
            #expect(access(others, F_OK) == 0)
        }
        #expect(entries(of: temporary.path) == [])
    }

    @Test func `the next run removes what a killed process has left, and nothing else`() async throws {
        let dead = temporary.path + "/ports-workers-dead"
        mkdir(dead, 0o700)
        mkdir(dead + "/1", 0o700)
        temporary.write([1], to: "ports-workers-dead/1/file")
        temporary.write([1], to: "ports-workers-file")
        mkdir(temporary.path + "/other", 0o700)
        try await withPool(1) { pool in
            let first = try await pool.request(Work(.fill), timeout: .seconds(60))
            #expect(await waitUntil { access(dead, F_OK) != 0 })
            // The folder of a running pool stays.
            try await withPool(1) { other in
                _ = try await other.request(Work(.fill), timeout: .seconds(60))
                #expect(first.folder.map { access($0, F_OK) } == 0)
            }
            #expect(first.folder.map { access($0, F_OK) } == 0)
        }
        #expect(entries(of: temporary.path)?.sorted() == ["other", "ports-workers-file"])
    }

    @Test func `a pool whose folders cannot be made does not run, and says why`() async throws {
        var options = WorkerPool.Options()
        options.temporaryFolder = .own(inside: "/nowhere")
        let pool = try WorkerPool(
            "/bin/true", count: 1, options: options, nameServer: PortNameServer(directory: folder.path))
        let error = await #expect(throws: WorkerPoolError.self) { try await pool.run() }
        #expect(error?.description.contains("mkdir /nowhere/ports-workers-") == true)
        await #expect(throws: WorkerPoolError.self) { _ = try await pool.request(Work(.answer)) }
    }
}
