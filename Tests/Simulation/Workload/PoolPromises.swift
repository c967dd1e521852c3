import Glibc
import Workers

@testable import Ports

/// The promises of pools of workers.
final class PoolPromises {
    /// A worker's way to end a request.
    enum Deed: Int, Codable, CaseIterable { case reply, fail, wait, hang, exit, crash }

    private struct Job {
        let deed: Deed
        let asker: Process
        let end: UInt64
        let bound: WaitBound
        let mostWorkers: Int
        /// The time for which the machine had slept before.
        let slept = machine.slept
        var workers: [Process] = []
        var isCancelled = false
        var isOver = false
    }

    private var jobs: [Job] = []
    private(set) var doneCount = 0
    /// The workers whose handlers do not return.
    private var hanging: Set<ObjectIdentifier> = []
    private var workers: [Process] = []
    /// The workers that have checked in.
    private var ready: Set<ObjectIdentifier> = []
    /// The processes whose pools run, and are not being stopped.
    private var running: Set<ObjectIdentifier> = []

    static let exitStatus: Int32 = 3

    // MARK: The pool

    func runs() { running.insert(ObjectIdentifier(machine.current.process)) }
    func stops() { running.remove(ObjectIdentifier(machine.current.process)) }

    /// Whether a pool runs now.
    var isRunning: Bool { machine.processes.contains { !$0.isDead && running.contains(ObjectIdentifier($0)) } }

    /// All workers have ended when a pool has.
    func hasEnded() {
        let pool = machine.current.process
        guard let worker = workers.first(where: { $0.parent === pool && !$0.isDead }) else { return }
        machine.fail("\(worker) lives, and its pool has ended")
    }

    /// A pool kills a worker. It has no reason to kill one that works.
    func kills(_ worker: Process) {
        let pool = machine.current.process
        machine.story.tell(machine) { "kills \(worker)" }
        let mayDie =
            worker.isAskedToEnd || !worker.isUndisturbed || pool.failedCalls > 0 || pool.wasCut
            || hanging.contains(ObjectIdentifier(worker)) || !ready.contains(ObjectIdentifier(worker))
            || !running.contains(ObjectIdentifier(pool))
        if !mayDie { machine.fail("\(pool) kills \(worker), which works") }
    }

    var isDirectoryLost = false

    // MARK: The worker

    func starts(_ worker: Process) { workers.append(worker) }
    func hasCheckedIn() { ready.insert(ObjectIdentifier(machine.current.process)) }

    /// - Returns: What to do.
    func handling(_ number: Int) -> Deed {
        let worker = machine.current.process
        machine.story.tell(machine) { "does job \(number): \(jobs[number].deed)" }
        jobs[number].workers.append(worker)
        // “A crash takes down one worker.” The pool sends a job again only if its asker allows that.
        if jobs[number].workers.count > jobs[number].mostWorkers { machine.fail("job \(number) was done too often") }
        if jobs[number].deed == .hang { hanging.insert(ObjectIdentifier(worker)) }
        return jobs[number].deed
    }

    // MARK: The asker

    func asking(_ deed: Deed, timeout: Int, retries: Int) -> Int {
        machine.story.tell(machine) { "asks for job \(jobs.count): \(deed)" }
        // After the loss of a worker, a pool has two seconds for its end.
        jobs.append(
            Job(
                deed: deed, asker: machine.current.process, end: machine.now + UInt64(timeout) * 1_000_000,
                bound: WaitBound(timeout + 3_000 * (1 + retries)), mostWorkers: 1 + retries))
        return jobs.count - 1
    }

    func cancels(_ number: Int) { jobs[number].isCancelled = true }

    func ended(_ number: Int, _ outcome: Result<Int, any Error>) {
        machine.story.tell(machine) { "has the outcome of job \(number): \(outcome)" }
        let job = jobs[number]
        if job.isOver { machine.fail("job \(number) has ended twice") }
        jobs[number].isOver = true
        // The ports of a process that exits have ended.
        if job.asker.isExiting { return }
        job.bound.check("job \(number) has its outcome")
        switch outcome {
        case .success(let reply):
            if reply != number || ![.reply, .wait].contains(job.deed) || job.workers.isEmpty {
                machine.fail("job \(number) has the reply \(reply)")
            }
            doneCount += 1
        case .failure(PortError.failed(_, let failure)):
            if job.deed != .fail || failure.text != "\(number)" || job.workers.isEmpty {
                machine.fail("job \(number) has the failure of another: \(failure)")
            }
        case .failure(is CancellationError):
            if !job.isCancelled { machine.fail("job \(number) was cancelled by nobody") }
        case .failure(let error as WorkerPoolError): check(error, number, job)
        // “A reply that finds no room or connection for ten seconds is given up.” The machine may sleep for the
        // most of that.
        case .failure(PortError.unanswered) where machine.slept > job.slept + 7_000_000_000: break
        // Its port cannot be reached by the path of a directory that is away.
        case .failure(PortError.directory) where isDirectoryLost: break
        case .failure(let error as PortError):
            // A port of the pool's own process, which has no descriptor left.
            if job.asker.failedCalls == 0 { machine.fail("job \(number) got: \(error)") }
        case .failure(let error): machine.fail("job \(number) got: \(error)")
        }
    }

    private func check(_ error: WorkerPoolError, _ number: Int, _ job: Job) {
        switch error {
        case .workerEnded(let name, let end): check(end, of: name, number, job)
        case .timedOut, .noWorker:
            if machine.now < job.end { machine.fail("job \(number) got too early: \(error)") }
        case .stopped, .failed:
            if running.contains(ObjectIdentifier(job.asker)), case .stopped = error {
                machine.fail("job \(number) got: \(error)")
            }
        case .full: break
        default: machine.fail("job \(number) got: \(error)")
        }
    }

    /// The error names the worker, and how it has ended.
    private func check(_ end: WorkerEnd, of name: String, _ number: Int, _ job: Job) {
        guard case .ended(let status) = end else { return }
        // Another process may have the number by now.
        let found = machine.processes.filter { name.hasSuffix("(pid \($0.pid))") && $0.isDead }.map(\.status)
        let isTrue =
            switch status {
            case .exited(let code): found.contains(code)
            // A worker that crashes is known to end before it does.
            case .signaled(let signal): found.contains(-signal) || signal == SIGSEGV
            case .unknown: false
            }
        if !isTrue { machine.fail("job \(number) got: \(name) \(end)") }
    }
}
