import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing
import WorkersTestHelper

@testable import Workers

/// Pools in programs of threads and run loops, without tasks.
@Suite(.ownThread) struct PoolLoopTests {
    private let folder = TemporaryFolder()

    private func makePool(_ change: (inout WorkerPool.Options) -> Void = { _ in }) throws -> WorkerPool {
        var options = WorkerPool.Options()
        options.startTime = .seconds(60)
        change(&options)
        let program = WorkerProcess.Configuration(
            "\(Child.folder)/WorkersTestHelper", environment: .inherit.updating(["SWIFT_BACKTRACE": "enable=no"]),
            standardError: .discard)
        return try WorkerPool(
            program, count: 1, name: "pool", options: options, nameServer: PortNameServer(directory: folder.path))
    }

    @Test func `a thread starts a pool, asks, and stops it, and its loop hears of the end`() throws {
        let pool = try makePool()
        var ends: [WorkerPoolError?] = []
        try pool.start { ends.append($0) }
        #expect(throws: WorkerPoolError.isRunning(pool: "pool")) { try pool.start { _ in } }
        let first = try pool.request(Work(.answer, 7), timeout: .seconds(60))
        #expect(first.number == 7)
        #expect(throws: Work.Refused.self) { try pool.request(Work(.fail), timeout: .seconds(60)) }
        let error = #expect(throws: WorkerPoolError.self) { try pool.request(Work(.kill), timeout: .seconds(60)) }
        #expect(error?.description.contains("signal 9") == true)
        #expect(try pool.request(Work(.answer), timeout: .seconds(60)).pid != first.pid)
        #expect(pool.stop() == [])
        #expect(throws: WorkerPoolError.stopped(pool: "pool")) { try pool.request(Work(.answer)) }
        // The mode is empty when the handler was called.
        #expect(ends.isEmpty)
        try ThreadRunLoop.current.run(until: .patience)
        #expect(ends == [nil])
    }

    @Test func `a thread that waits has a deadline, for the worker and for its reply`() throws {
        let pool = try makePool { $0.hangTime = .seconds(60) }
        #expect(
            throws: WorkerPoolError.timedOut(pool: "pool", after: .milliseconds(10), wasHandled: false)
        ) { try pool.request(Work(.answer), timeout: .milliseconds(10)) }
        #expect(pool.waitingRequests == 0)
        try pool.start { _ in }
        _ = try pool.request(Work(.answer), timeout: .seconds(60))
        #expect(
            throws: WorkerPoolError.timedOut(pool: "pool", after: .milliseconds(200), wasHandled: true)
        ) { try pool.request(Work(.sleep), timeout: .milliseconds(200)) }
        _ = try pool.request(Work(.answer), timeout: .seconds(60))
        pool.stop()
    }

    @Test func `replies come to handlers on the loop, which stops the pool after the last`() throws {
        let pool = try makePool()
        var (numbers, isOver) = ([Int](), false)
        try pool.start { error in isOver = error == nil }
        for number in 1...3 {
            try pool.request(Work(.answer, number), timeout: .seconds(60)) { reply in
                numbers.append((try? reply.get().number) ?? 0)
                if numbers.count == 3 { pool.stop() }
            }
        }
        try ThreadRunLoop.current.run(until: .patience)
        #expect(numbers.sorted() == [1, 2, 3] && isOver)
    }

    @Test func `a request that is cancelled calls no handler, and its worker goes on`() throws {
        let pool = try makePool()
        try pool.start { _ in }
        let first = try pool.request(Work(.answer), timeout: .seconds(60))
        let asking = try pool.request(Work(.sleep), timeout: .seconds(60)) { _ in Issue.record("a reply") }
        #expect(waitUntil { pool.workers.first?.requestsInProgress == 1 })
        asking.cancel()
        #expect(try pool.request(Work(.answer), timeout: .seconds(60)).pid == first.pid)
        pool.stop()
        try ThreadRunLoop.current.run(until: .patience)
    }

    @Test func `the end of the thread stops the pool`() async throws {
        let pool = try makePool()
        let pid = await Helper {
            try? pool.start { _ in }
            return (try? pool.request(Work(.answer), timeout: .seconds(60)))?.pid
        }.ended()
        let worker = try #require(pid ?? nil)
        #expect(await waitUntil { isGone(worker) })
        #expect(await waitUntil { pool.workers.isEmpty })
    }

    @Test func `threads that wait for one worker all get it`() async throws {
        let pool = try makePool()
        let running = Task { try await pool.run() }
        let threads = (0..<8).map { thread in
            Helper {
                (0..<20).allSatisfy { (try? pool.request(Work(.answer, $0), timeout: .seconds(60)))?.number == $0 }
            }
        }
        for thread in threads { #expect(await thread.ended() == true) }
        await pool.stop()
        try await running.value
    }
}
