import Glibc
import Workers

/// The state of a service of an ``Activator``.
public enum ServicePhase: Sendable, Hashable, Codable {
    /// It does not run. The next message starts it.
    case waiting
    /// Its process has been started, and has not taken the port yet.
    case starting(pid: pid_t)
    case running(pid: pid_t)
    /// Its process was asked to end, or has given the port back and answers its last requests.
    case stopping(pid: pid_t)
    /// It could not be started, or has ended too often. Requests get the reason for a while.
    case failed(reason: String)
    /// A process that the activator has not started has the name; nil for one that is not known.
    case elsewhere(pid: pid_t?)
    /// The name cannot be taken.
    case unusable(reason: String)

    /// The process of the service, if there is one.
    public var pid: pid_t? {
        switch self {
        case .starting(let pid), .running(let pid), .stopping(let pid): pid
        case .elsewhere(let pid): pid
        case .waiting, .failed, .unusable: nil
        }
    }

    /// The phase as a word.
    public var word: String {
        switch self {
        case .waiting: "waiting"
        case .starting: "starting"
        case .running: "running"
        case .stopping: "stopping"
        case .failed: "failed"
        case .elsewhere: "elsewhere"
        case .unusable: "unusable"
        }
    }

    /// Why the service does not run; nil where there is nothing to say.
    public var reason: String? {
        switch self {
        case .failed(let reason), .unusable(let reason): reason
        default: nil
        }
    }
}
