import Glibc
import OwnThread
import TestSupport
import Testing
import WorkersTestHelper

@testable import Ports
@testable import Workers

/// Pools of real processes, whose workers end in any way.
@Suite(.fewAtATime) struct WorkerPoolTests {
    private let folder = TemporaryFolder()
    private let names: PortNameServer

    init() { names = PortNameServer(directory: folder.path) }

    private static let program = WorkerProcess.Configuration(
        "\(Child.folder)/WorkersTestHelper", environment: .inherit.updating(["SWIFT_BACKTRACE": "enable=no"]),
        standardError: .discard)

    /// Calls the closure with a pool that runs.
    private func withPool(
        _ count: Int = 2, _ change: (inout WorkerPool.Options) -> Void = { _ in }, names: PortNameServer? = nil,
        _ body: (WorkerPool) async throws -> Void
    ) async throws {
        var options = WorkerPool.Options()
        options.startTime = .seconds(60)
        change(&options)
        let pool = try WorkerPool(
            Self.program, count: count, name: "pool", options: options, nameServer: names ?? self.names)
        async let running: Void = pool.run()
        do {
            try await body(pool)
        } catch {
            await pool.stop()
            throw error
        }
        await pool.stop()
        _ = try? await running
        #expect(pool.workers.isEmpty)
    }

    private func ask(
        _ pool: WorkerPool, _ work: Work, key: Int? = nil, timeout: Duration = .seconds(60), retries: Int = 0
    ) async throws -> Done {
        try await pool.request(work, key: key, timeout: timeout, retries: retries)
    }

    /// How the pool has ended the worker that had the request.
    private func end(_ pool: WorkerPool, _ work: Work, timeout: Duration = .seconds(60)) async throws -> WorkerEnd? {
        do {
            _ = try await ask(pool, work, timeout: timeout)
            return nil
        } catch WorkerPoolError.workerEnded(_, let end) {
            return end
        }
    }

    @Test func `requests are answered by all workers, and one after the other by each`() async throws {
        try await withPool(3) { pool in
            let pids = try await withThrowingTaskGroup(of: Done.self) { group in
                for number in 0..<100 { group.addTask { try await ask(pool, Work(.answer, number)) } }
                return try await group.reduce(into: [Int: Int32]()) { $0[$1.number] = $1.pid }
            }
            #expect(pids.count == 100)
            #expect(Set(pids.values).isSubset(of: Set(pool.workers.map(\.pid))))
        }
    }

    @Test(arguments: [
        (Work.Kind.segfault, "was ended by signal 11"), (.trap, "was ended by signal"),
        (.kill, "was ended by signal 9"),
        (.exit, "exited with status 7"),
    ]) func `a request whose worker ends gets the cause, and the next one another worker`(
        kind: Work.Kind, text: String
    ) async throws {
        try await withPool(1) { pool in
            let first = try await ask(pool, Work(.answer))
            let end = try #require(try await end(pool, Work(kind)))
            #expect(end.description.hasPrefix(text))
            let next = try await ask(pool, Work(.answer))
            #expect(next.pid != first.pid)
            #expect(kill(first.pid, 0) == -1)
        }
    }

    @Test func `what a handler throws is thrown, and ends no worker`() async throws {
        try await withPool(1) { pool in
            let first = try await ask(pool, Work(.answer))
            await #expect(throws: Work.Refused.self) { _ = try await ask(pool, Work(.fail)) }
            #expect(try await ask(pool, Work(.answer)).pid == first.pid)
        }
    }

    @Test func `a handler that lets a request go keeps its worker`() async throws {
        try await withPool(1, { $0.intensity.most = 0 }) { pool in
            let first = try await ask(pool, Work(.answer))
            do {
                _ = try await ask(pool, Work(.cancel))
                Issue.record("it was answered")
            } catch PortError.unanswered {}
            #expect(try await ask(pool, Work(.answer)).pid == first.pid)
        }
    }

    @Test func `workers that somebody ends in order fail no request and no pool`() async throws {
        try await withPool(2, { $0.intensity.most = 0 }) { pool in
            let isOver = Shared(false)
            try await withThrowingTaskGroup { group in
                for _ in 0..<8 {
                    group.addTask {
                        while !isOver.withLock({ $0 }) { _ = try await ask(pool, Work(.answer)) }
                    }
                }
                for _ in 0..<20 {
                    let worker = try await ask(pool, Work(.answer))
                    kill(worker.pid, SIGTERM)
                    #expect(await waitUntil { isGone(worker.pid) })
                }
                isOver.withLock { $0 = true }
                try await group.waitForAll()
            }
        }
    }

    @Test func `a spare serves when a worker has ended, before that has a successor`() async throws {
        try await withPool(1, { ($0.spares, $0.intensity.most) = (1, 0) }) { pool in
            #expect(await waitUntil { pool.workers.count == 2 && pool.workers.contains(where: \.isSpare) })
            let spare = try #require(pool.workers.first { $0.isSpare })
            let first = try await ask(pool, Work(.answer))
            #expect(first.pid != spare.pid)
            kill(first.pid, SIGTERM)
            #expect(await waitUntil { !pool.workers.contains { $0.pid == first.pid } })
            #expect(try await ask(pool, Work(.answer)).pid == spare.pid)
            // The successor is the next spare.
            #expect(await waitUntil { pool.workers.contains(where: \.isSpare) })
            #expect(pool.workers.map(\.requests).sorted() == [0, 1])
        }
    }

    @Test func `a spare that dies is replaced`() async throws {
        try await withPool(1, { $0.spares = 2 }) { pool in
            #expect(await waitUntil { pool.workers.count(where: \.isSpare) == 2 })
            let first = try #require(pool.workers.first { $0.isSpare })
            kill(first.pid, SIGKILL)
            #expect(
                await waitUntil {
                    pool.workers.count(where: \.isSpare) == 2 && !pool.workers.contains { $0.pid == first.pid }
                })
        }
    }

    @Test func `spares that die count for the limit of restarts`() async throws {
        var options = WorkerPool.Options()
        (options.startTime, options.spares) = (.seconds(60), 1)
        options.intensity = RestartIntensity(most: 0, in: .seconds(60))
        let pool = try WorkerPool(Self.program, count: 1, options: options, nameServer: names)
        let running = Task { try await pool.run() }
        #expect(await waitUntil { pool.workers.contains(where: \.isSpare) })
        let spare = try #require(pool.workers.first { $0.isSpare })
        kill(spare.pid, SIGKILL)
        let error = await #expect(throws: WorkerPoolError.self) { try await running.value }
        #expect(error?.description.contains("pid \(spare.pid)") == true)
    }

    @Test func `equal keys go to one worker`() async throws {
        try await withPool(3) { pool in
            var pids: [Int: Set<Int32>] = [:]
            for number in 0..<30 {
                pids[number % 5, default: []].insert(try await ask(pool, Work(.answer), key: number % 5).pid)
            }
            #expect(pids.values.allSatisfy { $0.count == 1 })
        }
    }

    @Test func `a request is sent again as often as its caller says, and not to a third worker`() async throws {
        let record = folder.path + "/record"
        try await withPool(2) { pool in
            for (retries, times) in [(0, 1), (1, 2), (5, 2)] {
                unlink(record)
                await #expect(throws: WorkerPoolError.self) {
                    _ = try await ask(pool, Work(.kill, 1, record: record), retries: retries)
                }
                #expect(lines(of: record) == times)
            }
        }
    }

    private func lines(of path: String) -> Int { bytes(ofFile: path).count { $0 == UInt8(ascii: "\n") } }

    @Test(arguments: [Work.Kind.hang, .stop]) func `a worker that does not let go of a request is killed`(
        kind: Work.Kind
    ) async throws {
        try await withPool(1, { $0.hangTime = .milliseconds(200) }) { pool in
            let (first, record) = (try await ask(pool, Work(.answer)), folder.path + "/record")
            // Until the worker has had the request.
            repeat {
                let error = await #expect(throws: WorkerPoolError.self) {
                    _ = try await ask(pool, Work(kind, record: record), timeout: .milliseconds(100))
                }
                #expect(error?.description == "a worker of \(pool.name) has not answered for 0.1 seconds")
            } while lines(of: record) == 0
            let next = try await ask(pool, Work(.answer))
            #expect(next.pid != first.pid)
        }
    }

    @Test func `a handler that notices the end of its time keeps its worker`() async throws {
        try await withPool(1) { pool in
            let first = try await ask(pool, Work(.answer))
            await #expect(throws: WorkerPoolError.self) {
                _ = try await ask(pool, Work(.sleep), timeout: .milliseconds(100))
            }
            #expect(try await ask(pool, Work(.answer)).pid == first.pid)
            let asking = Task { try await ask(pool, Work(.sleep)) }
            #expect(await waitUntil { pool.workers.first?.requestsInProgress == 1 })
            asking.cancel()
            await #expect(throws: CancellationError.self) { _ = try await asking.value }
            #expect(try await ask(pool, Work(.answer)).pid == first.pid)
        }
    }

    @Test func `a worker stays to which a request has found no way in its time`() async throws {
        try await withPool(1, { $0.stopTime = .milliseconds(100) }) { pool in
            #expect(await waitUntil { pool.workers.first != nil })
            let pid = try #require(pool.workers.first?.pid)
            #expect(kill(pid, SIGSTOP) == 0)
            await #expect(throws: WorkerPoolError.self) {
                _ = try await ask(pool, Work(.answer), timeout: .milliseconds(100))
            }
            #expect(kill(pid, SIGCONT) == 0)
            // Longer than a worker may take that ends.
            let end = ContinuousClock.now + .milliseconds(500)
            while ContinuousClock.now < end { #expect(try await ask(pool, Work(.answer)).pid == pid) }
        }
    }

    @Test func `a worker that has too much memory is killed`() async throws {
        try await withPool(1, { $0.memoryLimit = 256 << 20 }) { pool in
            let end = try await end(pool, Work(.grow))
            #expect(end == .memoryLimit(256 << 20))
            #expect(end?.description == "was killed: memory limit 256 MiB")
        }
    }

    @Test func `a worker that is stopped while it has nothing to do is killed`() async throws {
        let change = { (options: inout WorkerPool.Options) in
            (options.pingPeriod, options.pingTime) = (.milliseconds(20), .milliseconds(200))
        }
        try await withPool(1, change) { pool in
            let first = try await ask(pool, Work(.answer))
            kill(first.pid, SIGSTOP)
            #expect(await waitUntil { pool.workers.first.map { $0.pid != first.pid } ?? false })
        }
    }

    /// A request that the worker refuses goes to another one at once, and would come back to it again and again.
    @Test(arguments: [false, true]) func `a worker that has ended gets no more requests`(hasEnded: Bool) async throws {
        let worker = try await PoolWorker.launch(
            WorkerTitle(pool: "pool", number: 1), Self.program, WorkerPool.Options(),
            PoolSurroundings(logger: nil, foldersInside: nil), names)
        let isTold = OneShot<Void>()
        if !hasEnded { worker.beforeEnd { isTold.set(()) } }
        worker.process.send(signal: SIGKILL)
        _ = try await worker.process.waitForExit()
        if hasEnded { worker.beforeEnd { isTold.set(()) } }
        #expect(await waitUntil { isTold.isSet })
    }

    /// The thread hears nobody meanwhile, and sends no ping.
    @Test func `no worker is killed while a handler blocks the library's own thread`() async throws {
        let runtime = PortRuntime(directory: folder.path)
        let change = { (options: inout WorkerPool.Options) in
            (options.pingPeriod, options.pingTime) = (.milliseconds(20), .seconds(1))
        }
        try await withPool(1, change, names: runtime.nameServer) { pool in
            let first = try await ask(pool, Work(.answer))
            let goesOn = OneShot<Void>()
            try runtime.housekeeping.perform {
                usleep(3_000_000)
                goesOn.set(())
            }
            await goesOn.wait()
            #expect(try await ask(pool, Work(.answer)).pid == first.pid)
        }
    }

    @Test func `a worker is replaced after so many requests, and none of them fails`() async throws {
        try await withPool(
            2,
            {
                $0.mostRequests = 3; $0.intensity.most = 0
            }
        ) { pool in
            let pids = try await withThrowingTaskGroup(of: Int32.self) { group in
                for number in 0..<30 { group.addTask { try await ask(pool, Work(.answer, number)).pid } }
                return try await group.reduce(into: [Int32: Int]()) { $0[$1, default: 0] += 1 }
            }
            #expect(pids.count >= 10)
            #expect(pids.values.allSatisfy { $0 <= 3 })
        }
    }

    @Test func `a full queue is an error, and a wait has an end`() async throws {
        try await withPool(
            1,
            {
                $0.queueLimit = 1; $0.hangTime = .seconds(60)
            }
        ) { pool in
            let busy = Task { try await ask(pool, Work(.sleep)) }
            #expect(await waitUntil { pool.workers.first?.requestsInProgress == 1 })
            let waiting = Task { try await ask(pool, Work(.answer)) }
            #expect(await waitUntil { pool.waitingRequests == 1 })
            await #expect(throws: WorkerPoolError.full(pool: "pool", limit: 1)) {
                _ = try await ask(pool, Work(.answer))
            }
            waiting.cancel()
            await #expect(throws: CancellationError.self) { _ = try await waiting.value }
            await #expect(
                throws: WorkerPoolError.timedOut(pool: "pool", after: .milliseconds(50), wasHandled: false)
            ) { _ = try await ask(pool, Work(.answer), timeout: .milliseconds(50)) }
            busy.cancel()
            _ = try await ask(pool, Work(.answer))
        }
    }

    @Test func `a pool whose workers do not start fails, with the reasons`() async throws {
        var options = WorkerPool.Options()
        options.intensity = RestartIntensity(most: 2, in: .seconds(60))
        options.backOff = .milliseconds(1)...(.milliseconds(2))
        let pool = try WorkerPool("/bin/false", count: 1, options: options, nameServer: names)
        let waiting = Task { try await ask(pool, Work(.answer)) }
        let error = await #expect(throws: WorkerPoolError.self) { try await pool.run() }
        guard case .failed("false", let reasons)? = error else { Issue.record("\(String(describing: error))"); return }
        #expect(reasons.count == 3)
        #expect(reasons.allSatisfy { $0.contains("exited with status 1") })
        await #expect(throws: WorkerPoolError.self) { _ = try await waiting.value }
        await #expect(throws: WorkerPoolError.self) { _ = try await ask(pool, Work(.answer)) }
        // Again, with the same end.
        await #expect(throws: WorkerPoolError.self) { try await pool.run() }
    }

    @Test func `a request that finds no worker in time learns why none has started`() async throws {
        var options = WorkerPool.Options()
        options.intensity = RestartIntensity(most: 1_000_000, in: .seconds(60))
        let pool = try WorkerPool("/bin/false", count: 1, name: "false", options: options, nameServer: names)
        let running = Task { try await pool.run() }
        let error = await #expect(throws: WorkerPoolError.self) {
            _ = try await pool.request(Work(.answer), timeout: .seconds(2))
        }
        guard case .noWorker("false", .seconds(2), let reason)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(reason.contains("exited with status 1"))
        #expect(error?.description.hasPrefix("no worker of false has started for 2.0 seconds: worker ") == true)
        await pool.stop()
        _ = await running.result
    }

    @Test func `a program that is no WorkerProgram has no pool of itself`() async throws {
        let pool = try WorkerPool(count: 1, nameServer: names)
        let error = await #expect(throws: WorkerPoolError.self) { try await pool.run() }
        #expect(error?.description.contains("this program is no WorkerProgram") == true)
    }

    @Test func `a pool that was stopped runs again, but not twice at a time`() async throws {
        let pool = try WorkerPool(Self.program, count: 1, name: "pool", nameServer: names)
        var pids: Set<Int32> = []
        for _ in 0..<2 {
            let running = Task { try await pool.run() }
            _ = await waitUntil { !pool.workers.isEmpty }
            pids.insert(try await ask(pool, Work(.answer)).pid)
            await #expect(throws: WorkerPoolError.isRunning(pool: "pool")) { try await pool.run() }
            await pool.stop()
            try await running.value
            await #expect(throws: WorkerPoolError.stopped(pool: "pool")) { _ = try await ask(pool, Work(.answer)) }
        }
        #expect(pids.count == 2)
    }

    @Test func `a stop answers what was taken, refuses what waits, and kills who does not end`() async throws {
        try await withPool(1, { $0.stopTime = .milliseconds(300) }) { pool in
            let record = folder.path + "/record"
            let hanging = Task { try await ask(pool, Work(.hang, record: record)) }
            #expect(await waitUntil { lines(of: record) == 1 })
            let waiting = Task { try await ask(pool, Work(.answer)) }
            #expect(await waitUntil { pool.waitingRequests == 1 })
            let name = try #require(pool.workers.first?.name)
            #expect(await pool.stop() == [name])
            await #expect(throws: WorkerPoolError.stopped(pool: "pool")) { _ = try await waiting.value }
            await #expect(throws: WorkerPoolError.workerEnded(worker: name, .stopped)) { _ = try await hanging.value }
            await #expect(throws: WorkerPoolError.stopped(pool: "pool")) { _ = try await ask(pool, Work(.answer)) }
        }
    }

    @Test func `a stream has a worker for itself, and tells its end`() async throws {
        try await withPool(1) { pool in
            let count = try await pool.withWorker(timeout: .seconds(60)) { worker in
                var count = 0
                for try await _ in worker.stream(Count()) { count += 1 }
                return count
            }
            #expect(count == 1000)
            await #expect(throws: WorkerPoolError.self) {
                try await pool.withWorker(timeout: .seconds(60)) { worker in
                    for try await _ in worker.stream(Count(crashesAt: 500)) {}
                }
            }
            _ = try await ask(pool, Work(.answer))
        }
    }

    @Test func `a worker that takes no more requests and lives on is killed, which its request hears`() async throws {
        try await withPool(1) { pool in
            let end = try #require(try await end(pool, Work(.close)))
            #expect(end == .lingering(.seconds(2)))
            #expect(end.description == "was killed: it took no more requests, and was still there after 2.0 seconds")
        }
    }

    @Test func `ps and top show a worker's name, and the worker sees its own arguments`() async throws {
        var program = Self.program
        program.arguments = ["--one", "two"]
        let pool = try WorkerPool(program, count: 1, name: "thumbnails", nameServer: names)
        async let running: Void = pool.run()
        let done = try await ask(pool, Work(.answer))
        #expect(commandLine(of: done.pid) == "thumbnails: worker 1 --one two")
        #expect(line(in: "/proc/\(done.pid)/comm") == "w1 thumbnails")
        #expect(done.arguments == [program.executable, "--one", "two"])
        kill(done.pid, SIGKILL)
        let next = try await ask(pool, Work(.answer), retries: 1)
        // A busy machine may have replaced the second one, too.
        #expect(commandLine(of: next.pid).wholeMatch(of: /thumbnails: worker [2-9] --one two/) != nil)
        await pool.stop()
        try await running
    }

    @Test func `what a worker has started ends with it`() async throws {
        try await withPool(1) { pool in
            let done = try await ask(pool, Work(.orphan))
            let child = try #require(done.child)
            #expect(kill(child, 0) == 0)
            kill(done.pid, SIGKILL)
            #expect(await waitUntil { isGone(child) })
        }
    }

    @Test func `of a process that is killed no worker is left, and nothing that they have started`() async throws {
        for round in 0..<Scale.count(2, long: 100) {
            let file = "\(folder.path)/pids\(round)"
            let parent = Child(
                ["\(Child.folder)/WorkersTestHelper", file], environment: ["PORTS_DIRECTORY": folder.path])
            #expect(await waitUntil { bytes(ofFile: file).last == UInt8(ascii: "\n") })
            let text = String(decoding: bytes(ofFile: file).dropLast(), as: UTF8.self)
            let pids = text.split(separator: " ").compactMap { pid_t($0) }
            #expect(pids.count == 4 && !pids.contains(0))
            #expect(!pids.contains(where: isGone))
            parent.kill()
            #expect(await waitUntil { pids.allSatisfy(isGone) })
        }
    }

    @Test func `the guard of what workers have started is replaced when somebody ends it`() async throws {
        let file = "\(folder.path)/pids"
        let parent = Child(["\(Child.folder)/WorkersTestHelper", file], environment: ["PORTS_DIRECTORY": folder.path])
        #expect(await waitUntil { bytes(ofFile: file).last == UInt8(ascii: "\n") })
        let pids = String(decoding: bytes(ofFile: file).dropLast(), as: UTF8.self).split(separator: " ")
            .compactMap { pid_t($0) }
        #expect(pids.count == 4 && !pids.contains(where: isGone))
        var former: [pid_t] = []
        // At once, and then with pauses.
        for _ in 0..<4 {
            try #require(await waitUntil { children(of: parent.pid, "ports-guard").contains { !former.contains($0) } })
            former = children(of: parent.pid, "ports-guard")
            #expect(former.count == 1)
            guard former.count == 1 else { return }
            #expect(commandLine(of: former[0]) == "/bin/sh -c eval \"$PORTS_GUARD\" ports-guard")
            #expect(await waitUntil { line(in: "/proc/\(former[0])/comm") == "ports-guard" })
            kill(former[0], SIGKILL)
        }
        #expect(await waitUntil { children(of: parent.pid, "ports-guard").contains { !former.contains($0) } })
        parent.kill()
        #expect(await waitUntil { pids.allSatisfy(isGone) })
    }

    @Test func `a cancelled run stops the pool`() async throws {
        let pool = try WorkerPool(Self.program, count: 2, nameServer: names)
        let running = Task { try await pool.run() }
        let done = try await ask(pool, Work(.answer))
        running.cancel()
        try await running.value
        #expect(isGone(done.pid))
    }

    @Test func `limits out of their range are refused`() {
        #expect(throws: PortError.self) { _ = try WorkerPool(count: 0, nameServer: names) }
        var options = WorkerPool.Options()
        options.requestsPerWorker = 0
        #expect(throws: PortError.self) { _ = try WorkerPool(count: 1, options: options, nameServer: names) }
    }
}
