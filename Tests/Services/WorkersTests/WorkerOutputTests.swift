import Glibc
import Logging
import OwnThread
import RunLoopLocks
import TestSupport
import Testing
import WorkersTestHelper

@testable import Workers

/// The standard streams of workers in a log.
@Suite(.fewAtATime) struct WorkerOutputTests {
    private let folder = TemporaryFolder()

    /// Keeps what is logged, as "pid level text".
    private struct Handler: LogHandler {
        let records: Shared<[String]>
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace
        subscript(metadataKey key: String) -> Logger.MetadataValue? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let (worker, pid) = (metadata["worker"] ?? "?", metadata["pid"] ?? "?")
            records.withLock { $0.append("\(worker), \(pid), \(event.level): \(event.message)") }
        }
    }

    private func withPool(
        backtrace: String = "enable=no", _ body: (WorkerPool, Shared<[String]>) async throws -> Void
    ) async throws {
        let records = Shared<[String]>([])
        var options = WorkerPool.Options()
        options.startTime = .seconds(60)
        options.output = .log(Logger(label: "test") { _ in Handler(records: records) })
        let program = WorkerProcess.Configuration(
            "\(Child.folder)/WorkersTestHelper", environment: .inherit.updating(["SWIFT_BACKTRACE": backtrace]))
        let pool = try WorkerPool(
            program, count: 1, name: "pool", options: options, nameServer: PortNameServer(directory: folder.path))
        async let running: Void = pool.run()
        try await body(pool, records)
        await pool.stop()
        try await running
    }

    @Test func `each line is a record that names the worker and its process`() async throws {
        try await withPool { pool, records in
            let done = try await pool.request(
                Work(.answer, output: "one\ntwo\n", errors: "bad\n"), timeout: .seconds(60))
            #expect(await waitUntil { records.withLock { $0.count } == 3 })
            let found = records.withLock { $0 }
            let worker = "worker 1 of pool, \(done.pid)"
            #expect(found.filter { $0.contains("info") } == ["\(worker), info: one", "\(worker), info: two"])
            #expect(found.filter { $0.contains("notice") } == ["\(worker), notice: bad"])
        }
    }

    @Test func `the last words of a worker that crashes are logged, also without an end of the line`() async throws {
        try await withPool { pool, records in
            await #expect(throws: WorkerPoolError.self) {
                _ = try await pool.request(
                    Work(.kill, output: "done\n", errors: "first\nlast words"), timeout: .seconds(60))
            }
            #expect(await waitUntil { records.withLock { $0.count } == 3 })
            #expect(records.withLock { $0.contains { $0.hasSuffix("notice: last words") } })
        }
    }

    @Test(.enabled(if: sanitizerOptions.isEmpty && !isThreadSanitized))
    func `the backtrace of a worker that crashes is logged under the worker's name`() async throws {
        // The quick form.
        let backtrace = "enable=yes,symbolicate=off,threads=crashed,images=none,registers=none,limit=4"
        try await withPool(backtrace: backtrace) { pool, records in
            let first = try await pool.request(Work(.answer), timeout: .seconds(60))
            await #expect(throws: WorkerPoolError.self) {
                _ = try await pool.request(Work(.crash), timeout: .seconds(60))
            }
            let worker = "worker 1 of pool, \(first.pid), notice: "
            #expect(
                await waitUntil {
                    records.withLock { $0.contains { $0.hasPrefix(worker + "*** ") && $0.contains("crashed") } }
                })
        }
    }

    @Test func `a process that keeps the pipe open holds nothing up`() async throws {
        var child: Int32 = 0
        try await withPool { pool, records in
            // In a session of its own, so that it outlives the worker.
            let done = try await pool.request(Work(.daemon, output: "partial"), timeout: .seconds(60))
            child = try #require(done.child)
            // The other tests of this process have descriptors, too.
            let pipe = try #require(link(at: "/proc/\(done.pid)/fd/1"))
            #expect(pipe.hasPrefix("pipe:"))
            kill(done.pid, SIGKILL)
            #expect(await waitUntil { records.withLock { $0.contains { $0.hasSuffix("\(done.pid), info: partial") } } })
            #expect(kill(child, 0) == 0)
            _ = try await pool.request(Work(.answer), timeout: .seconds(60))
            // The descriptor for the former worker's output is closed.
            let own = "/proc/self/fd/"
            #expect(await waitUntil { entries(of: own)?.contains { link(at: own + $0) == pipe } == false })
        }
        kill(child, SIGKILL)
    }

    /// Where a link leads.
    private func link(at path: String) -> String? {
        var buffer = [UInt8](repeating: 0, count: 256)
        let count = readlink(path, &buffer, buffer.count)
        return count > 0 ? String(decoding: buffer.prefix(count), as: UTF8.self) : nil
    }
}
