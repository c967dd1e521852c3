import Glibc
import Logging
import OwnThread
import TestSupport
import Testing
import WorkersTestHelper

@testable import Workers

/// Workers that crash with Swift's backtrace, which takes its time.
@Suite(.fewAtATime) struct CrashTests {
    private let folder = TemporaryFolder()

    private func withPool(
        backtrace: String, _ change: (inout WorkerPool.Options) -> Void = { _ in },
        _ body: (WorkerPool) async throws -> Void
    ) async throws {
        var options = WorkerPool.Options()
        options.startTime = .seconds(60)
        change(&options)
        let program = WorkerProcess.Configuration(
            "\(Child.folder)/WorkersTestHelper", environment: .inherit.updating(["SWIFT_BACKTRACE": backtrace]),
            standardError: .discard)
        let pool = try WorkerPool(
            program, count: 1, name: "pool", options: options, nameServer: PortNameServer(directory: folder.path))
        async let running: Void = pool.run()
        do {
            try await body(pool)
        } catch {
            await pool.stop()
            throw error
        }
        await pool.stop()
        try await running
    }

    /// A program in place of Swift's, which writes its backtraces. It ends when a file is there.
    private func makeTracer() -> (path: String, hasBegun: String, mayEnd: String) {
        let (path, begun, end) = (folder.path + "/tracer", folder.path + "/begun", folder.path + "/end")
        let script = "#!/bin/sh\necho >\(begun)\nwhile [ ! -e \(end) ]; do sleep 0.02; done\n"
        let file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o700)
        _ = write(file, script, script.utf8.count)
        close(file)
        return (path, begun, end)
    }

    private func make(_ path: String) { close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)) }

    @Test func `requests of a worker that crashes hear the signal before its backtrace is written`() async throws {
        let tracer = makeTracer()
        let change = { (options: inout WorkerPool.Options) in
            (options.requestsPerWorker, options.hangTime) = (2, .milliseconds(100))
        }
        try await withPool(backtrace: "enable=yes,swift-backtrace=\(tracer.path)", change) { pool in
            let first = try await pool.request(Work(.answer), timeout: .seconds(60))
            let other = Task { try await pool.request(Work(.sleep), timeout: .seconds(600)) }
            #expect(await waitUntil { pool.workers.first?.requestsInProgress == 1 })
            let name = "worker 1 of pool (pid \(first.pid))"
            let end = WorkerPoolError.workerEnded(worker: name, .ended(.signaled(SIGSEGV)))
            await #expect(throws: end) { _ = try await pool.request(Work(.crash), timeout: .seconds(600)) }
            #expect(end.description == "\(name) was ended by signal 11 (Segmentation fault)")
            await #expect(throws: end) { _ = try await other.value }
            if hasTracer {
                #expect(await waitUntil { access(tracer.hasBegun, F_OK) == 0 })
                #expect(!isGone(first.pid))
                make(tracer.mayEnd)
            }
            // With its own signal, and not by the pool.
            #expect(await waitUntil { isGone(first.pid) })
            #expect(try await pool.request(Work(.answer), timeout: .seconds(60)).pid != first.pid)
        }
        // The files of a process that was dead for its requests before it has ended are removed, too.
        let others: Set<String> = ["names", "tracer", "begun", "end"]
        #expect(await waitUntil { entries(of: folder.path)?.count { !others.contains($0) } == 1 })
    }

    @Test func `the first request of a worker hears of a crash at once`() async throws {
        let tracer = makeTracer()
        try await withPool(backtrace: "enable=yes,swift-backtrace=\(tracer.path)") { pool in
            #expect(await waitUntil { pool.workers.count == 1 })
            let error = await #expect(throws: WorkerPoolError.self) {
                _ = try await pool.request(Work(.crash), timeout: .seconds(8))
            }
            #expect(error?.description.hasSuffix("was ended by signal 11 (Segmentation fault)") == true)
            make(tracer.mayEnd)
        }
    }

    @Test func `a thread that blocks hears of a crash, too`() async throws {
        let tracer = makeTracer()
        try await withPool(backtrace: "enable=yes,swift-backtrace=\(tracer.path)") { pool in
            _ = try await pool.request(Work(.answer), timeout: .seconds(60))
            let helper = Helper {
                do {
                    _ = try pool.request(Work(.crash), timeout: .seconds(600))
                    return "answered"
                } catch {
                    return "\(error)"
                }
            }
            #expect(await helper.ended()?.hasSuffix("was ended by signal 11 (Segmentation fault)") == true)
            make(tracer.mayEnd)
        }
    }

    /// A sanitizer writes a report of its own in place of the backtrace.
    private var hasTracer: Bool { sanitizerOptions.isEmpty && !isThreadSanitized }
}
