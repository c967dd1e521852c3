import Glibc
import RunLoops
import ZeroMQ

/// Why a port, a right or a name could not be used.
public enum PortError: Error, Equatable, Sendable, CustomStringConvertible {
    /// There was no room in the port's queue before the deadline. Nothing was sent.
    case sendTimedOut(port: PortID)
    /// Nothing arrived before the deadline.
    case receiveTimedOut(port: PortID)
    /// The port was invalid when it was asked: it was invalidated, or its owner is gone.
    case isInvalid(port: PortID)
    /// The port became invalid while the call was under way.
    case becameInvalid(port: PortID)
    /// The calling thread's own loop is the one that would have to make room in the port's queue.
    case ownQueueFull(port: PortID)
    /// The server let the request go without an answer.
    case unanswered(port: PortID)
    /// The request has its answer; the port is the asker's.
    case alreadyAnswered(port: PortID)
    /// The message is larger than the port takes; both in bytes.
    case messageTooLarge(port: PortID, size: Int, limit: Int)
    /// The owner's process could not be reached although it may be alive.
    case cannotConnect(port: PortID, reason: String)
    /// The other side speaks another major version.
    case incompatibleVersion(what: String, ours: Int, theirs: Int)
    /// Nobody has registered the name.
    case nameNotFound(String, directory: String)
    /// A live process has the name.
    case nameInUse(String, pid: Int32)
    /// The name cannot be registered.
    case badName(String, reason: String)
    /// The registry directory cannot be trusted.
    case untrustedDirectory(String, reason: String)
    /// The registry directory, or something in it, could not be used.
    case directory(String, call: String, errno: Int32)
    /// The socket's path would be longer than the system takes; both in bytes.
    case pathTooLong(String, limit: Int)
    /// No descriptor is left.
    case outOfDescriptors(limit: Int)
    /// libzmq makes no more sockets, though there are descriptors left: each port has one, and each port sent to.
    case outOfSockets(limit: Int)
    /// No thread is left to the user, the container or the system: the ports of a process take three.
    case outOfThreads(limit: Int)
    /// The user has as many inotify instances as are allowed: one a process and registry directory that is watched.
    case outOfFileSources(limit: Int)
    /// The user watches as many files as are allowed.
    case outOfFileWatches(limit: Int)
    /// The run loop's thread was stopped, or has ended: the loop takes no port any more.
    case loopEnded
    /// A limit of a port is less than 1.
    case invalidLimit(name: String, value: Int)
    /// The process is a fork of the one that used the library, or is about to end.
    case unavailable(reason: String)
    /// A call into libzmq or the system failed for another reason.
    case transport(call: String, errno: Int32)

    /// The number that CFMessagePort has for it: −1 and −2 for a send and a receive that timed out, −3 for an invalid
    /// port, −5 for one that became invalid, and −4 for everything else.
    public var code: Int32 {
        switch self {
        case .sendTimedOut, .ownQueueFull: -1
        case .receiveTimedOut: -2
        case .isInvalid, .nameNotFound: -3
        case .becameInvalid: -5
        default: -4
        }
    }

    /// A sentence that names the thing and, where there is one, the remedy.
    public var description: String {
        switch self {
        case .sendTimedOut(let port):
            "\(port) had no room before the deadline: its owner does not read; allow more time, or raise its limits"
        case .receiveTimedOut(let port):
            "nothing came of \(port) before the deadline: allow more time, or see whether who should send or answer is stuck"
        case .isInvalid(let port):
            "\(port) is invalid: it was invalidated, or its owner is gone; ask for a new right"
        case .becameInvalid(let port):
            "\(port) became invalid during the call: it was invalidated, or its owner has gone"
        case .ownQueueFull(let port):
            "\(port) is full, and this thread's own loop would have to empty it: return to the loop first"
        case .unanswered(let port):
            "\(port) let the request go without an answer"
        case .alreadyAnswered(let port):
            "\(port) has its answer: a request is answered once"
        case .messageTooLarge(let port, let size, let limit):
            "a message of \(size) bytes is too large for \(port), which takes \(limit): raise its limits"
        case .cannotConnect(let port, let reason):
            "\(port) cannot be connected to: \(reason)"
        case .incompatibleVersion(let what, let ours, let theirs):
            "\(what) has version \(theirs), and this library speaks version \(ours): update the older of the two"
        case .nameNotFound(let name, let directory):
            "nobody has registered the name \(quoted(name)) in \(directory)"
        case .nameInUse(let name, let pid):
            "the name \(quoted(name)) belongs to " + (pid == getpid() ? "this process" : "process \(pid)")
        case .badName(let name, let reason):
            "\(quoted(name)) cannot be a port's name: \(reason)"
        case .untrustedDirectory(let path, let reason):
            "the registry directory \(path) cannot be trusted: \(reason)"
        case .directory(let path, let call, let errno):
            "\(call) failed on \(path) (the port registry; see PORTS_DIRECTORY): \(String(cString: strerror(errno)))"
        case .pathTooLong(let path, let limit):
            "the socket path \(path) is longer than \(limit) bytes: set PORTS_DIRECTORY to a shorter one"
        case .outOfDescriptors(let limit):
            "no descriptor is left for a port (the limit is \(limit)): close some, or raise the limit with ulimit -n"
        case .outOfSockets(let limit):
            "libzmq makes no more sockets than \(limit) a process: invalidate some ports, or use several processes"
        case .outOfThreads(let limit):
            RunLoopError.outOfThreads(limit: limit == .max ? .max : UInt64(limit)).description
        case .outOfFileSources(let limit):
            RunLoopError.outOfFileSources(limit: limit).description
        case .outOfFileWatches(let limit):
            RunLoopError.outOfFileWatches(limit: limit).description
        case .loopEnded:
            RunLoopError.loopEnded.description
        case .invalidLimit(let name, let value):
            "a port cannot have a \(name) of \(value): ask for 1 or more"
        case .unavailable(let reason):
            "ports are unavailable: \(reason)"
        case .transport(let call, let errno):
            "\(call) failed: \(String(cString: strerror(errno)))"
        }
    }

    private func quoted(_ name: String) -> String {
        let shown = (name.utf8.count > 320 ? name.prefix(80) + "…" : name[...]).unicodeScalars
        return "“" + shown.map { $0.value < 32 ? $0.escaped(asASCII: true) : String($0) }.joined() + "”"
    }

    init(_ error: ZeroMQError) {
        self =
            switch error.code {
            case EMFILE: .descriptorsGone
            case EAGAIN where error.call == "pthread_create": PortError(.threadsGone)
            case ZeroMQError.contextTerminated: .isEnding
            default: .transport(call: error.call, errno: error.code)
            }
    }

    init(_ error: RunLoopError) {
        switch error {
        case .outOfDescriptors(let limit): self = .outOfDescriptors(limit: Int(clamping: limit))
        case .outOfFileSources(let limit): self = .outOfFileSources(limit: limit)
        case .outOfFileWatches(let limit): self = .outOfFileWatches(limit: limit)
        case .loopEnded: self = .loopEnded
        case .system(let call, let errno): self = .transport(call: call, errno: errno)
        case .outOfThreads(let limit): self = .outOfThreads(limit: Int(clamping: limit))
        default: self = .unavailable(reason: error.description)
        }
    }

    /// What `errno` says after a system call.
    static func last(_ call: String) -> PortError {
        errno == EMFILE || errno == ENFILE ? .descriptorsGone : .transport(call: call, errno: errno)
    }

    /// The runtime is ending, most often with the process.
    static var isEnding: PortError { .unavailable(reason: "the process is ending") }

    private static var descriptorsGone: PortError {
        .outOfDescriptors(limit: Int(clamping: Descriptor.limit))
    }
}

/// Runs a piece of libzmq's world with our errors.
func zeroMQ<Result: ~Copyable>(_ body: () throws(ZeroMQError) -> Result) throws(PortError) -> Result {
    do { return try body() } catch { throw PortError(error) }
}

/// Runs a piece of the loops' world with our errors.
@discardableResult
func runLoop<Result: ~Copyable>(_ body: () throws(RunLoopError) -> Result) throws(PortError) -> Result {
    do { return try body() } catch { throw PortError(error) }
}
