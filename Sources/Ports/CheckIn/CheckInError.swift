import RunLoops

/// Why a worker did not check in.
public enum CheckInError: Error, Equatable, Sendable, CustomStringConvertible {
    /// It was silent until the deadline. It was ended.
    case timedOut(worker: String)
    /// It ended before it checked in.
    case died(worker: String, status: ThreadRunLoop.ExitStatus)
    /// Its thread's body has thrown, or returned, before it checked in.
    case failed(worker: String, reason: String)
    /// The kernel says that it was another process, or another user's, that wanted to check in in its place.
    case refused(worker: String, pid: Int32, uid: UInt32)
    /// It could not be started, or was not started by a launcher.
    case notLaunched(reason: String)
    /// A port failed.
    case port(PortError)

    /// A sentence that names the worker and the cause.
    public var description: String {
        switch self {
        case .timedOut(let worker): "\(worker) did not check in in time, and was ended"
        case .died(let worker, let status): "\(worker) \(status) before it checked in"
        case .failed(let worker, let reason): "\(worker) ended before it checked in: \(reason)"
        case .refused(let worker, let pid, let uid):
            "\(worker) was not let in: it was process \(pid) of user \(uid) that wanted to check in"
        case .notLaunched(let reason): "the worker was not launched: \(reason)"
        case .port(let error): error.description
        }
    }
}
