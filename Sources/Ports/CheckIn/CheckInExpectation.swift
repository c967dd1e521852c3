import Glibc
import RunLoops

/// A worker that is expected to check in.
final class CheckInExpectation: Sendable {
    /// What the launcher knows of the worker, to compare with the kernel's word.
    enum Identity {
        /// A thread of this process.
        case thread
        /// A child; nil until it was started.
        case process(pid_t?)
    }

    typealias Outcome = Result<MachPort.SendRight, CheckInError>

    let worker: String
    let parent: MachPort.SendRight
    /// The worker's port. The first outcome counts.
    let outcome = Promise<Outcome>()
    private let identity: Lock<Identity>

    init(_ worker: String, _ identity: Identity, parent: MachPort.SendRight) {
        self.worker = worker
        self.parent = parent
        self.identity = Lock(identity)
    }

    /// Starts the child. A check-in that comes meanwhile waits until its pid is known.
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

    /// The worker's port. When the deadline comes first, that is the outcome.
    func wait(before deadline: MonotonicInstant) throws(CheckInError) -> MachPort.SendRight {
        if outcome.wait(until: deadline) == nil { fail(.timedOut(worker: worker)) }
        // The outcome may stand already, and not be visible yet.
        guard let outcome = outcome.wait(until: .now + .seconds(2)) else { throw .timedOut(worker: worker) }
        return try outcome.get()
    }
}
