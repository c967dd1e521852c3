import Glibc
import RunLoopLocks
import RunLoops

/// A worker that is expected to check in.
final class CheckInExpectation: Sendable {
    typealias Outcome = Result<MachPort.SendRight, CheckInError>

    let worker: String
    let parent: MachPort.SendRight
    /// The worker's port, or an error. The first outcome counts.
    let outcome = Promise<Outcome>()
    /// The worker's process; nil until the child was started.
    private let pid: Lock<pid_t?>

    init(_ worker: String, pid: pid_t?, parent: MachPort.SendRight) {
        self.worker = worker
        self.parent = parent
        self.pid = Lock(pid)
    }

    /// Starts the child. The lock delays an early check-in until the child's pid is known.
    func start(_ spawn: () throws(CheckInError) -> pid_t) throws(CheckInError) -> pid_t {
        try pid.withLock { (pid) throws(CheckInError) in
            let child = try spawn()
            pid = child
            return child
        }
    }

    func isMet(by sender: SenderCredentials) -> Bool {
        sender.uid == geteuid() && pid.withLock { $0 == sender.pid }
    }

    func fail(_ error: CheckInError) { outcome.set(.failure(error)) }

    /// The worker's port, if it has checked in.
    var port: MachPort.SendRight {
        get throws(CheckInError) {
            guard let outcome = outcome.value else { throw .notCheckedIn(worker: worker) }
            return try outcome.get()
        }
    }

    /// Blocks until the outcome. The deadline is an outcome, too.
    func wait(before deadline: MonotonicInstant) throws(CheckInError) -> MachPort.SendRight {
        if outcome.wait(until: deadline) == nil { fail(.timedOut(worker: worker)) }
        // The outcome may be decided and not visible yet.
        guard let outcome = outcome.wait(until: .now + .seconds(2)) else { throw .timedOut(worker: worker) }
        return try outcome.get()
    }

    /// Suspends until the outcome. The deadline is an outcome, too. A cancellation is none, because others may wait.
    nonisolated(nonsending) func wait(
        before deadline: MonotonicInstant, on housekeeping: Housekeeping
    ) async throws -> MachPort.SendRight {
        try Task.checkCancellation()
        if try await outcome.value(before: deadline, on: housekeeping) == nil { fail(.timedOut(worker: worker)) }
        guard let outcome = try await outcome.value(before: .now + .seconds(2), on: housekeeping) else {
            throw CheckInError.timedOut(worker: worker)
        }
        return try outcome.get()
    }
}
