import Glibc

/// Why a loop, a source or a thread could not be made or used.
///
/// Later versions may add cases, so a `switch` over all cases needs an `@unknown default`.
@nonexhaustive
public enum RunLoopError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The process, or the system, has no descriptor left. `limit` is the process's soft limit.
    case outOfDescriptors(limit: UInt64)
    /// No open descriptor has this number.
    case badDescriptor(Int32)
    /// The kernel cannot wait for a descriptor of this kind (a regular file or a directory).
    case notPollable(Int32)
    /// The signal cannot be watched: the system reserves it, it reports a fault, or no signal has the number.
    case signalNotWatchable(Int32)
    /// The process with this id is no child of this process, or was waited for already.
    case notAChild(pid_t)
    /// Too many sources watch this signal.
    case tooManySignalSources(signal: Int32)
    /// The user, the container or the system has no thread left, or no memory for a stack. `limit` is the user's.
    case outOfThreads(limit: UInt64)
    /// The process was forked, and the loop is its parent's.
    case forked
    /// A thread cannot have a stack of this many bytes: less than the minimum, or more than the free memory.
    case invalidStackSize(Int, minimum: Int)
    /// A limit is out of its range.
    case invalidLimit(name: String, value: Int, allowed: ClosedRange<Int>)
    /// A duration is out of its range.
    case invalidDuration(name: String, value: Duration, allowed: ClosedRange<Duration>)
    /// The system refuses the thread this nice value.
    case nicenessRefused(Int)
    /// The loop's thread was stopped, or has ended. The loop takes no more work, and will not call the closure.
    case loopEnded
    /// The path names nothing.
    case noSuchFile(path: String)
    /// The process may not read or reach the file or directory at the path.
    case noPermission(path: String)
    /// The user has no inotify instance left; each file source takes one.
    case outOfFileSources(limit: Int)
    /// The user has no inotify watch left.
    case outOfFileWatches(limit: Int)
    /// A system call failed for another reason.
    case system(call: String, errno: Int32)

    /// A sentence that names the cause and, where there is one, the remedy.
    public var description: String {
        switch self {
        case .outOfDescriptors(let most): "no descriptor is left (the limit is \(most)): close some or raise ulimit -n"
        case .badDescriptor(let descriptor): "\(descriptor) is not an open descriptor"
        case .notPollable(let descriptor):
            "descriptor \(descriptor) cannot be waited for: it is a regular file or a directory, which is always ready"
        case .signalNotWatchable(let signal):
            "signal \(signal) cannot be watched: it is SIGKILL, SIGSTOP, a fault like SIGSEGV, or the system's own"
        case .notAChild(let pid):
            "process \(pid) is not to be waited for: watch a child of this process that it has not waited for"
        case .tooManySignalSources(let signal): "too many sources watch signal \(signal): invalidate one first"
        case .outOfThreads(let limit):
            "no thread is left (the user's limit is \(limit == .max ? "none" : "\(limit)")): end some threads, raise the "
                + "limit with ulimit -u, or check the container's limit (pids.max) and the memory for stacks"
        case .forked: "a forked child cannot use its parent's run loops: call exec, or use posix_spawn"
        case .invalidStackSize(let size, let minimum):
            "no thread can have a stack of \(size) bytes: ask for at least \(minimum), and no more than there is memory"
        case .invalidLimit(let name, let value, let allowed): allowed.refusal(of: "\(value)", as: name)
        case .invalidDuration(let name, let value, let allowed): allowed.refusal(of: "\(value)", as: name)
        case .nicenessRefused(let niceness):
            "the nice value \(niceness) was refused: a lower one takes CAP_SYS_NICE or a higher limit (ulimit -e)"
        case .loopEnded: "the loop's thread was stopped or has ended: keep the RunLoopThread until its work is done"
        case .noSuchFile(let path): "there is no file at \"\(path)\": make it first, or watch its directory"
        case .noPermission(let path): "\"\(path)\" may not be watched: get permission to read it and to search above it"
        case .outOfFileSources(let limit):
            "all \(limit) inotify instances are in use: end some file sources, or raise fs.inotify.max_user_instances"
        case .outOfFileWatches(let limit):
            "all \(limit) inotify watches are in use: end some file sources, or raise fs.inotify.max_user_watches"
        case .system(let call, let errno): "\(call) failed: \(String(cString: strerror(errno)))"
        }
    }

    static func check(_ name: String, _ value: Int, in allowed: ClosedRange<Int>) throws(RunLoopError) {
        guard allowed.contains(value) else { throw .invalidLimit(name: name, value: value, allowed: allowed) }
    }

    static func check(_ name: String, _ value: Duration, in allowed: ClosedRange<Duration>) throws(RunLoopError) {
        guard allowed.contains(value) else { throw .invalidDuration(name: name, value: value, allowed: allowed) }
    }

    package static var threadsGone: RunLoopError {
        .outOfThreads(limit: UInt64(rlimit(of: __RLIMIT_NPROC).rlim_cur))
    }

    static func last(_ call: String, descriptor: Int32 = -1) -> RunLoopError {
        switch errno {
        case EMFILE, ENFILE: return .outOfDescriptors(limit: Descriptor.limit)
        case EBADF: return .badDescriptor(descriptor)
        case EPERM where call == "epoll_ctl": return .notPollable(descriptor)
        // The descriptor was closed, and the wait set now has its number.
        case EINVAL where call == "epoll_ctl": return .badDescriptor(descriptor)
        case let code: return .system(call: call, errno: code)
        }
    }
}

extension ClosedRange {
    /// The sentence of an error for a value that is not in the range.
    package func refusal(of value: String, as name: String) -> String {
        "\(name) cannot be \(value): choose \(lowerBound) to \(upperBound)"
    }
}
