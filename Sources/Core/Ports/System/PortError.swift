import Glibc
import RunLoops

/// Why a port, a right or a name could not be used.
///
/// Later versions may add cases, so a `switch` over all cases needs an `@unknown default`.
@nonexhaustive
public enum PortError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The port's queue had no room before the deadline. Nothing was sent.
    case sendTimedOut(port: PortIdentity)
    /// Nothing arrived before the deadline.
    case receiveTimedOut(port: PortIdentity)
    /// The port was invalid before the call: it was invalidated, or its owner is gone.
    case isInvalid(port: PortIdentity)
    /// The port became invalid during the call. A request may have been handled, or not: ask the next port of the name
    /// if it may be handled twice, as ``NamedMessagePort`` does with `mayRepeat`.
    case becameInvalid(port: PortIdentity)
    /// The port's queue is full, and only the calling thread's own loop could empty the queue.
    case ownQueueFull(port: PortIdentity)
    /// The calling thread would wait for the reply of a port that only this thread serves, and not meanwhile. Nothing
    /// was sent.
    case servedOnlyHere(port: PortIdentity)
    /// The server dropped the request without a reply: a handler released the right to reply, or its task was
    /// cancelled. Ask again if what the handler may have done may be done twice.
    case unanswered(port: PortIdentity)
    /// The port ended, or does not take requests, before anybody handled the request: ask its successor.
    case refused(port: PortIdentity)
    /// The server's handler failed, and says why. Or the service that had taken the request has ended, and its activator says
    /// how: then the request may have been handled.
    case failed(port: PortIdentity, RequestFailure)
    /// The server handles as many requests of this kind as it may, and lets no more wait. Nobody has handled the
    /// request: ask again later. See ``RequestLane/WhenFull/refuse``.
    case serverBusy(port: PortIdentity, limit: Int)
    /// The reply was larger than this process takes; both in bytes. ``PortRuntime/setReplyLimit(_:)`` raises the limit.
    case replyTooLarge(port: PortIdentity, size: Int, limit: Int)
    /// The request has a reply already; the port is the asker's.
    case alreadyAnswered(port: PortIdentity)
    /// The message is larger than the port's message limit; both in bytes.
    case messageTooLarge(port: PortIdentity, size: Int, limit: Int)
    /// The owner's process may be alive, but no connection to it could be made.
    case cannotConnect(port: PortIdentity, reason: String)
    /// The connection to the port has ended though its owner lives, and messages on their way are lost. This message
    /// was not sent. Later ones go by a new connection, and may overtake those that wait at the port.
    case connectionLost(port: PortIdentity)
    /// The port was not handed over to another process, and goes on here.
    case notHandedOver(port: PortIdentity, reason: String)
    /// As many processes monitor the port, or record its owner's loops, as its owner takes.
    case busy(port: PortIdentity)
    /// The other side speaks another version.
    case incompatibleVersion(what: String, ours: Int, theirs: Int)
    /// Nobody has registered the name.
    case nameNotFound(String, directory: String)
    /// A live process's port has the name.
    case nameInUse(String, by: PortIdentity)
    /// The name cannot be registered.
    case badName(String, reason: String)
    /// The registry directory cannot be trusted.
    case untrustedDirectory(String, reason: String)
    /// The registry directory, or something in it, could not be used.
    case directory(String, call: String, errno: Int32)
    /// The path of the socket is longer than the system's limit, in bytes.
    case pathTooLong(String, limit: Int)
    /// The descriptor has left its ``MessageDescriptor``: a message that was sent has it, or somebody has taken it.
    case descriptorGone
    /// The descriptor has not arrived with its message: its sender is no process of this library, or its connection was
    /// lost.
    case descriptorLost
    /// The descriptor is no memory, or memory that somebody can still change: ``SharedMemory`` and ``SharedBuffer`` say how.
    case untrustedMemory(reason: String)
    /// No descriptor is left.
    case outOfDescriptors(limit: Int)
    /// libzmq's limit on sockets is reached. Each port of this process, and each port that it sends to, takes a socket.
    case outOfSockets(limit: Int)
    /// A run loop's error: its thread has ended, or no thread, inotify instance or inotify watch is left. The ports of
    /// a process take three threads, and an inotify instance for each watched registry directory.
    case runLoop(RunLoopError)
    /// A limit is out of its range.
    case invalidLimit(name: String, value: Int, allowed: ClosedRange<Int>)
    /// A duration is out of its range.
    case invalidDuration(name: String, value: Duration, allowed: ClosedRange<Duration>)
    /// A port cannot go to another process, or be lent to one, now. It stays where it is.
    case cannotMove(reason: String)
    /// Ports, or what the call needs, cannot be used now. Above all the process is a forked child of the one that used the
    /// library, or is ending. The names of a port cannot be changed while it is handed over.
    case unavailable(reason: String)
    /// A call into libzmq or the system failed for another reason.
    case transport(call: String, errno: Int32)

    /// The port that the error is about, as data: nil for an error of a name that no port has, or of the process.
    public var port: PortIdentity? {
        switch self {
        case .sendTimedOut(let port), .receiveTimedOut(let port), .isInvalid(let port), .becameInvalid(let port),
            .ownQueueFull(let port), .servedOnlyHere(let port), .unanswered(let port), .refused(let port),
            .failed(let port, _), .serverBusy(let port, _),
            .replyTooLarge(let port, _, _), .alreadyAnswered(let port), .messageTooLarge(let port, _, _),
            .cannotConnect(let port, _), .connectionLost(let port), .notHandedOver(let port, _), .busy(let port),
            .nameInUse(_, let port):
            port
        case .incompatibleVersion, .nameNotFound, .badName, .untrustedDirectory, .directory, .pathTooLong,
            .descriptorGone, .descriptorLost, .untrustedMemory, .outOfDescriptors, .outOfSockets, .runLoop,
            .invalidLimit, .invalidDuration, .cannotMove, .unavailable, .transport:
            nil
        }
    }

    /// CFMessagePort's status for this error: −1 when sending and −2 when receiving timed out, −3 for an invalid port,
    /// −5 for a port that became invalid, and −4, a transport error, for all others.
    public var cfStatus: Int32 {
        switch self {
        case .sendTimedOut, .ownQueueFull: -1
        case .receiveTimedOut, .servedOnlyHere: -2
        case .isInvalid, .nameNotFound: -3
        case .becameInvalid: -5
        default: -4
        }
    }

    /// A sentence that names the port or the name, and the remedy if there is one.
    public var description: String {
        switch self {
        case .sendTimedOut(let port):
            "\(port) had no room before the deadline: allow more time, or raise its limits" + port.doctorText
        case .receiveTimedOut(let port) where port.pid == getpid():
            "nothing arrived at or from \(port) before the deadline: allow more time, or look who is to send or to reply"
        case .receiveTimedOut(let port):
            "nothing arrived from \(port) before the deadline: allow more time" + port.doctorText
        case .isInvalid(let port): "\(port) is invalid: it was invalidated, or its owner is gone; \(port.nextText)"
        case .becameInvalid(let port):
            "\(port) became invalid during the call, perhaps with its owner's end"
                + (port.pid == getpid() ? "" : ": \(port.nextText); a request may have been handled")
        case .ownQueueFull(let port): "only this thread's own loop can empty \(port), which is full: return to it first"
        case .servedOnlyHere(let port):
            "only this thread serves \(port), and not while it waits for a reply: `try await` the request, pass a "
                + "replyMode that serves the port, or serve it on another thread"
        case .unanswered(let port): "\(port) dropped the request without a reply, and may have handled it"
        case .refused(let port):
            "\(port) did not handle the request: it takes none, or has ended (then ask for its name again)"
        case .failed(let port, let failure) where failure.isUnknownRequest: "\(port) cannot answer: \(failure.text)"
        case .failed(let port, let failure): "the request to \(port) has failed: \(failure.text)"
        case .serverBusy(let port, let limit):
            "\(port) already handles \(limit) requests of this kind, and lets no more wait: ask again later"
        case .replyTooLarge(let port, let size, let limit):
            "the reply of \(port) has \(size) bytes, and the limit is \(limit): raise this process's limit with setReplyLimit"
        case .alreadyAnswered(let port): "\(port) has the reply already: a request gets one reply"
        case .messageTooLarge(let port, let size, let limit):
            "a message of \(size) bytes is too large for \(port), whose limit is \(limit): raise its limits"
        case .cannotConnect(let port, let reason): "cannot connect to \(port): \(reason)"
        case .connectionLost(let port): "messages on their way to \(port) were lost: send again what has to arrive"
        case .notHandedOver(let port, let reason): "\(port) was not handed over, and goes on here: \(reason)"
        case .busy(let port):
            "the owner of \(port) answers, or is monitored or recorded by, as many as it takes: try again when one has ended"
        case .incompatibleVersion(let what, let ours, let theirs):
            "\(what) has version \(theirs), and this library speaks version \(ours): update the older of the two"
        case .nameNotFound(let name, let directory):
            // The path of a directory is absolute; a network has an URL.
            !directory.hasPrefix("/")
                ? "nobody serves the name \(name.quoted) on \(directory): is a server running, with a connection to it?"
                : "nobody has registered the name \(name.quoted) in \(directory): is its server running, with the same "
                    + "directory?"
        case .nameInUse(let name, let port):
            "the name \(name.quoted) belongs to "
                + (port.pid == getpid() ? "this process: invalidate its port" : "\(port.ownerText): end that process")
                + ", or use another name"
        case .badName(let name, let reason): "\(name.quoted) cannot be a port's name: \(reason)"
        case .untrustedDirectory(let path, let reason):
            "the registry directory \(DefaultDirectory.text(path)) cannot be trusted: \(reason)"
        case .directory(let path, let call, let errno):
            "the registry directory cannot be used: \(call) failed on \(DefaultDirectory.text(path)): "
                + String(cString: strerror(errno)) + DefaultDirectory.remedy(call, errno, path)
        case .pathTooLong(let path, let limit):
            "the path \(DefaultDirectory.text(path)) has \(path.utf8.count) bytes, and the limit for a registry "
                + "directory is \(limit): set PORTS_DIRECTORY to a shorter path"
        case .descriptorGone: "the descriptor was sent or taken before: duplicate it for another use"
        case .descriptorLost: "the descriptor has not arrived with its message: ask its sender for another"
        case .untrustedMemory(let reason): "the memory cannot be trusted: \(reason)"
        case .outOfDescriptors(let most): "no descriptor is left (the limit is \(most)): close some or raise ulimit -n"
        case .outOfSockets(let limit): "libzmq has no socket left (the limit is \(limit)): invalidate some ports"
        case .runLoop(let error): error.description
        case .invalidLimit(let name, let value, let allowed): allowed.refusal(of: "\(value)", as: name)
        case .invalidDuration(let name, let value, let allowed): allowed.refusal(of: "\(value)", as: name)
        case .cannotMove(let reason): "the port cannot move: \(reason)"
        case .unavailable(let reason): "ports are unavailable: \(reason)"
        case .transport(let call, let errno): "\(call) failed: \(String(cString: strerror(errno)))"
        }
    }

    init(_ error: RunLoopError) {
        self =
            switch error {
            case .outOfDescriptors(let limit): .outOfDescriptors(limit: Int(clamping: limit))
            case .outOfThreads, .outOfFileSources, .outOfFileWatches, .loopEnded: .runLoop(error)
            case .system(let call, let errno): .transport(call: call, errno: errno)
            default: .unavailable(reason: error.description)
            }
    }

    package static func check(_ name: String, _ value: Int, in allowed: ClosedRange<Int>) throws(PortError) {
        guard allowed.contains(value) else { throw .invalidLimit(name: name, value: value, allowed: allowed) }
    }

    package static func check(_ name: String, _ value: Duration, in allowed: ClosedRange<Duration>) throws(PortError) {
        guard allowed.contains(value) else { throw .invalidDuration(name: name, value: value, allowed: allowed) }
    }

    package static func last(_ call: String) -> PortError {
        errno == EMFILE || errno == ENFILE ? .descriptorsGone : .transport(call: call, errno: errno)
    }

    /// The runtime is ending, most often with the process.
    static var isEnding: PortError { .unavailable(reason: "the process is ending") }

    static var descriptorsGone: PortError { .outOfDescriptors(limit: Int(clamping: Descriptor.limit)) }
}

extension PortIdentity {
    /// Where to learn why a port with a name does not answer or has no room: its owner may be stuck.
    fileprivate var doctorText: String {
        name == nil || !isPort ? "" : "; `portctl doctor` tells whether its owner is stuck"
    }
}

@discardableResult
func runLoop<Result: ~Copyable>(_ body: () throws(RunLoopError) -> Result) throws(PortError) -> Result {
    do { return try body() } catch { throw PortError(error) }
}
