import Glibc

/// Why a loop, one of its sources or its thread could not be had.
public enum RunLoopError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The process, or the system, has no descriptor left. `limit` is the process's soft limit.
    case outOfDescriptors(limit: UInt64)
    /// The number is not that of an open descriptor.
    case badDescriptor(Int32)
    /// The descriptor is of a kind that cannot be waited for (a regular file or a directory).
    case notPollable(Int32)
    /// More sources watch this signal than can be told of it.
    case tooManySignalSources(signal: Int32)
    /// The thread could not be made.
    case threadNotStarted(errno: Int32)
    /// The process was forked, and the loop is its parent's.
    case forked
    /// A system call failed for another reason.
    case system(call: String, errno: Int32)

    /// A sentence that names the cause and, where there is one, the remedy.
    public var description: String {
        switch self {
        case .outOfDescriptors(let limit):
            "no descriptor is left (the limit is \(limit)): close some, or raise the limit with ulimit -n"
        case .badDescriptor(let descriptor):
            "\(descriptor) is not an open descriptor"
        case .notPollable(let descriptor):
            "descriptor \(descriptor) cannot be waited for: it is a regular file or a directory, which is always ready"
        case .tooManySignalSources(let signal):
            "too many sources watch signal \(signal): invalidate one first"
        case .threadNotStarted(let errno):
            "the thread could not be started: \(String(cString: strerror(errno)))"
        case .forked:
            "a run loop is its parent's in a forked child: call exec, or start the program with posix_spawn"
        case .system(let call, let errno):
            "\(call) failed: \(String(cString: strerror(errno)))"
        }
    }

    static func last(_ call: String, descriptor: Int32 = -1) -> RunLoopError {
        switch errno {
        case EMFILE, ENFILE:
            return .outOfDescriptors(limit: Descriptor.limit)
        case EBADF: return .badDescriptor(descriptor)
        case EPERM where call == "epoll_ctl": return .notPollable(descriptor)
        case let code: return .system(call: call, errno: code)
        }
    }
}
