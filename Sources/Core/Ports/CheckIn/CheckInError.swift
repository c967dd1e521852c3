import Glibc
import RunLoops

/// The reason why a worker did not check in.
///
/// Later versions may add cases, so a `switch` over all cases needs an `@unknown default`.
@nonexhaustive
public enum CheckInError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The worker did not check in before the deadline, and was ended.
    case timedOut(worker: String)
    /// The worker ended before it checked in.
    case died(worker: String, status: ThreadRunLoop.ExitStatus)
    /// The thread's body threw an error or returned before the worker checked in.
    case failed(worker: String, reason: String)
    /// Another process, according to the kernel, tried to check in in the worker's place.
    case refused(worker: String, pid: Int32, uid: UInt32)
    /// The worker could not be started, or this process was not started as a worker.
    case notLaunched(reason: String)
    /// The worker was started and has not checked in yet.
    case notCheckedIn(worker: String)
    /// A port failed.
    case port(PortError)

    /// A sentence that names the worker and the cause.
    public var description: String {
        switch self {
        case .timedOut(let worker): "\(worker) did not check in before the deadline, and was ended"
        case .died(let worker, let status): "\(worker) \(status) before it checked in"
        case .failed(let worker, let reason): "\(worker) ended before it checked in: \(reason)"
        case .refused(let worker, getpid(), _): "\(worker) was refused: its launcher expects another process, or none"
        case .refused(let worker, let pid, let uid):
            "\(worker) was refused: process \(pid) of user \(uid) tried to check in in its place"
        case .notLaunched(let reason): "the process was not launched: \(reason)"
        case .notCheckedIn(let worker): "\(worker) has not checked in yet"
        case .port(let error): error.description
        }
    }
}

/// Turns port errors into check-in errors.
func checkingIn<Result>(_ body: () throws(PortError) -> Result) throws(CheckInError) -> Result {
    do { return try body() } catch { throw .port(error) }
}
