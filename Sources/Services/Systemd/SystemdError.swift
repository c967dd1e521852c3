import Glibc
import RunLoops

/// Why the service manager could not be told something, or has not handed over a descriptor.
///
/// Later versions may add cases, so a `switch` over all cases needs an `@unknown default`.
@nonexhaustive
public enum SystemdError: Error, Equatable, Sendable, CustomStringConvertible {
    /// A variable of the environment, which the service manager sets, has a value without a meaning.
    case badVariable(name: String, value: String, reason: String)
    /// The manager's socket cannot be reached.
    case unreachable(address: String, errno: Int32)
    /// The manager's socket had no room before the deadline.
    case busy(address: String)
    /// The manager's socket has not taken the notification for another reason.
    case notSent(address: String, errno: Int32)
    /// The notifications of one call are longer than systemd reads; both in bytes.
    case textTooLong(size: Int, limit: Int)
    /// A descriptor cannot be stored under the name.
    case badDescriptorName(String)
    /// No open descriptor has this number.
    case badDescriptor(Int32)
    /// A notification has no descriptor, or more than fit into one.
    case badDescriptorCount(Int, allowed: ClosedRange<Int>)
    /// A duration is out of its range.
    case invalidDuration(name: String, value: Duration, allowed: ClosedRange<Duration>)
    /// No descriptor is left. `limit` is the process's soft limit.
    case outOfDescriptors(limit: UInt64)
    /// The loop could not be watched.
    case runLoop(RunLoopError)

    /// A sentence that names the cause and, where there is one, the remedy.
    public var description: String {
        switch self {
        case .badVariable(let name, let value, let reason):
            "the variable \(name) is \(value.debugDescription): \(reason); a service manager sets it, nobody else should"
        case .unreachable(let address, let errno):
            "the service manager's socket \(address.debugDescription) cannot be reached: \(Self.text(errno)); unset "
                + "NOTIFY_SOCKET where there is no manager, and let a sandbox show its folder"
        case .busy(let address):
            "the service manager's socket \(address.debugDescription) had no room before the deadline: notify less often, "
                + "or allow more time"
        case .notSent(let address, let errno):
            "the service manager's socket \(address.debugDescription) has not taken the notification: \(Self.text(errno))"
        case .textTooLong(let size, let limit):
            "the notification has \(size) bytes, and a service manager reads \(limit): shorten the status"
        case .badDescriptorName(let name):
            "a descriptor cannot have the name \(name.debugDescription): take 1 to 255 ASCII characters, no colon and no "
                + "control character"
        case .badDescriptor(let descriptor): "\(descriptor) is not an open descriptor"
        case .badDescriptorCount(let count, let allowed):
            allowed.refusal(of: "\(count)", as: "the number of descriptors to store")
        case .invalidDuration(let name, let value, let allowed): allowed.refusal(of: "\(value)", as: name)
        case .outOfDescriptors(let most): "no descriptor is left (the limit is \(most)): close some or raise ulimit -n"
        case .runLoop(let error): error.description
        }
    }

    private static func text(_ errno: Int32) -> String { String(cString: strerror(errno)) }
}
