import Glibc

@testable import Ports
@testable import TypedPorts
@testable import Workers

/// A request to a worker of a pool.
private struct Job: PortRequest {
    typealias Reply = Int
    let number: Int
}

// The pool of a program, whose workers are processes of the machine.

extension Program {
    static let workerPath = "/sim/worker"

    func runPools() {
        while goesOn {
            guard let names, let pool = attempt({ try makePool(names) }) else {
                pause(50)
                continue
            }
            let (isRunning, askers) = (Kept(true), Kept(1 + below(4)))
            promises.pools.runs()
            let work = Task { [self] in
                _ = try? await pool.run()
                // It may have failed.
                promises.pools.stops()
                isRunning.value = false
            }
            for _ in 0..<askers.value {
                Task { [self] in
                    while goesOn, isRunning.value { await askForJob(pool) }
                    askers.value -= 1
                }
            }
            let life = below(3) == 0 && !scenario.isSettling ? below(20_000) : 100_000_000
            let end = machine.now + UInt64(life) * 1_000_000
            _ = machine.wait(until: end) { [self] in !goesOn || !isRunning.value }
            promises.pools.stops()
            // Each of its workers has ten seconds to end.
            let bound = WaitBound(20_000)
            if below(4) == 0 { work.cancel() } else { wait { _ = await pool.stop() } }
            _ = machine.wait(until: nil) { !isRunning.value && askers.value == 0 }
            bound.check("a pool has ended")
            promises.pools.hasEnded()
        }
    }

    private func makePool(_ names: PortNameServer) throws -> WorkerPool {
        var options = WorkerPool.Options()
        options.spares = below(2)
        options.requestsPerWorker = machine.chance.pick([1, 1, 4])
        options.mostRequests = below(3) == 0 ? 1 + below(20) : nil
        options.hangTime = .seconds(1 + below(5))
        options.pingPeriod = below(2) == 0 ? .milliseconds(500) : nil
        options.pingTime = .seconds(1 + below(5))
        options.intensity = RestartIntensity(most: 10, in: .seconds(machine.chance.pick([1, 10])))
        return try WorkerPool(
            WorkerProcess.Configuration(Self.workerPath), count: 1 + below(3), name: "pool", options: options,
            nameServer: names)
    }

    private func askForJob(_ pool: WorkerPool) async {
        let deed: PoolPromises.Deed =
            switch below(40) {
            case 0: machine.chance.pick([.hang, .exit, .crash])
            case 1...4: .fail
            case 5...12: .wait
            default: .reply
            }
        let (timeout, retries) = (below(4) == 0 ? below(1_000) : 10_000, below(3) == 0 ? 1 : 0)
        let number = promises.pools.asking(deed, timeout: timeout, retries: retries)
        let key = below(4) == 0 ? below(10) : nil
        let asking = Task {
            try await pool.request(Job(number: number), key: key, timeout: .milliseconds(timeout), retries: retries)
        }
        if below(12) == 0 {
            try? await Task.sleep(for: .milliseconds(below(300)))
            promises.pools.cancels(number)
            asking.cancel()
        }
        promises.pools.ended(number, await asking.result)
        try? await Task.sleep(for: .milliseconds(below(scenario.isSettling ? 1_000 : 100)))
    }
}

/// A worker of a pool, as a process with a `WorkerProgram` is one.
final class PoolWorkerProgram: @unchecked Sendable {
    // Sound: only the thread that has the baton runs.

    private let process: Process
    private let program: Program
    private let variables: [String: String]
    private let crash: EventFile?
    private var hasCrashed = false

    init(_ process: Process, _ scenario: Scenario, _ variables: [String: String], _ crash: EventFile?) {
        (self.process, self.variables, self.crash) = (process, variables, crash)
        program = Program(process, scenario)
    }

    func start() { program.start { [self] in work() } }

    private func work() {
        let fields = variables[CheckIn.variable, default: ""].split(separator: " ", maxSplits: 1).map { String($0) }
        guard fields.count == 2, let number = UInt64(fields[0], radix: 16), let names = program.names else {
            machine.fail("\(process) was not started as a worker: \(variables)")
        }
        process.handlesTermination = true
        // A program that does not come to its work.
        if program.below(30) == 0 { return program.pause(1_000_000) }
        let end = Result { try program.waitForResult { [self] in try await serve(fields[1], number, names) } }
        if case .failure(let error) = end {
            machine.story.note(machine) { "error: \(error)" }
            machine.exit(process, status: 1)
        }
    }

    private func serve(_ desk: String, _ number: UInt64, _ names: PortNameServer) async throws {
        let server = try RequestServer(nameServer: names)
        server.handle(PoolPing.self) { _ in EmptyReply() }
        server.handle(PoolTurn.self) { _ in EmptyReply() }
        server.handle(Job.self) { [self] job in try await handle(job.number) }
        let desk = try await names.port(forName: desk, before: program.after(5_000))
        let pool = try await CheckIn(desk: desk, number: number).complete(with: server, before: nil)
        program.promises.pools.hasCheckedIn()
        pool.onInvalidation { [self] in machine.exit(process, status: 1) }
        let limit = variables[PoolMember.variable].flatMap { Int($0) } ?? 1
        async let running: Void = server.run(atMost: limit)
        while !process.isAskedToEnd { try await Task.sleep(for: .milliseconds(20)) }
        await server.finish()
        try await running
        withExtendedLifetime(pool) {}
    }

    private func handle(_ number: Int) async throws -> Int {
        switch program.promises.pools.handling(number) {
        case .reply: break
        case .fail: throw RequestFailure("\(number)")
        case .wait: try await Task.sleep(for: .milliseconds(program.below(300)))
        case .hang: await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
        case .exit: machine.exit(process, status: PoolPromises.exitStatus)
        case .crash:
            // Of several threads that crash, one reports it.
            if !hasCrashed { crash?.add(UInt64(SIGSEGV)) }
            hasCrashed = true
            // Swift writes a backtrace.
            program.pause(program.below(5_000))
            machine.kill(process, status: -SIGSEGV)
        }
        return number
    }
}
