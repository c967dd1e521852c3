import Glibc
import RunLoopLocks
import RunLoops

/// A worker that is expected to check in.
final class CheckInExpectation: Sendable {
    /// The worker's identity, to compare with the kernel's credentials.
    enum Identity {
        /// A thread of this process.
        case thread
        /// A child; nil until the child was started.
        case process(pid_t?)
    }

    typealias Outcome = Result<MachPort.SendRight, CheckInError>

    let worker: String
    let parent: MachPort.SendRight
    /// The worker's port, or an error. The first outcome counts.
    let outcome = Promise<Outcome>()
    private let identity: Lock<Identity>

    init(_ worker: String, _ identity: Identity, parent: MachPort.SendRight) {
        self.worker = worker
        self.parent = parent
        self.identity = Lock(identity)
    }

    /// Starts the child. The lock delays an early check-in until the child's pid is known.
    func start(_ spawn: () throws(CheckInError) -> pid_t) throws(CheckInError) -> pid_t {
        try identity.withLock { (identity) throws(CheckInError) in
            let pid = try spawn()
            identity = .process(pid)
            return pid
        }
    }

    func isMet(by sender: MachPort.Message.Sender) -> Bool {
        identity.withLock { identity in
            switch identity {
            case .thread: sender.pid == getpid()
            case .process(let pid): sender.pid == pid && sender.uid == geteuid()
            }
        }
    }

    func fail(_ error: CheckInError) { outcome.set(.failure(error)) }

    /// Waits for the outcome. The deadline is an outcome, too.
    func wait(before deadline: MonotonicInstant) throws(CheckInError) -> MachPort.SendRight {
        if outcome.wait(until: deadline) == nil { fail(.timedOut(worker: worker)) }
        // The outcome may be fixed and not visible yet.
        guard let outcome = outcome.wait(until: .now + .seconds(2)) else { throw .timedOut(worker: worker) }
        return try outcome.get()
    }
}
