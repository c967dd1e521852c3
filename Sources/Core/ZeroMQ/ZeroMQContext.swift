import CZeroMQ
import Glibc
import RunLoopLocks

/// A context of sockets, for use on any thread. It is the scope of inproc addresses, and has the I/O thread of all
/// other connections.
public final class ZeroMQContext: @unchecked Sendable {
    // Sound: libzmq's contexts are thread-safe until `zmq_ctx_term` returns. See `life`.
    private let handle: UnsafeMutableRawPointer
    /// Whether the context has ended. libzmq frees a context when its last socket is closed. A thread that made a
    /// socket after that would use freed memory.
    private let life = Lock(false)
    private let owner = getpid()
    let closed = ClosedSockets()

    /// False in a forked child of the process that made the context.
    var isOwn: Bool { getpid() == owner }

    /// Makes a context. The corresponding C function is `zmq_ctx_new`.
    ///
    /// libzmq starts its threads with the first socket, and aborts the process when that fails. So this initializer
    /// checks that threads can be started. Make a socket soon after.
    /// - Throws: ``ZeroMQError``; `EAGAIN` of `pthread_create` when no thread is left.
    public init(maxSockets: Int32? = nil) throws(ZeroMQError) {
        // libzmq has one thread that carries bytes between processes, and one that closes sockets.
        guard Self.canStart(2) else { throw ZeroMQError(call: "pthread_create", code: EAGAIN) }
        guard let handle = zmq_ctx_new() else { throw .last("zmq_ctx_new") }
        self.handle = handle
        if let maxSockets {
            zmq_ctx_set(handle, ZMQ_MAX_SOCKETS, min(maxSockets, zmq_ctx_get(handle, ZMQ_SOCKET_LIMIT)))
        }
    }

    /// Whether this number of threads can exist at a time. Each thread starts the next.
    private static func canStart(_ count: Int) -> Bool {
        guard count > 0 else { return true }
        var (thread, id) = (pthread_t(), UnsafeMutableRawPointer?.none)
        let error = pthread_create(
            &thread, nil,
            { count in
                guard ZeroMQContext.canStart(Int(bitPattern: count) - 1) else { return nil }
                return UnsafeMutableRawPointer(bitPattern: Int(czmq_thread_id()))
            }, UnsafeMutableRawPointer(bitPattern: count))
        guard error == 0 else { return false }
        pthread_join(thread, &id)
        guard let id else { return false }
        // The kernel counts an ended thread for a moment longer. A new thread may get its id.
        let end = ContinuousClock.now + .milliseconds(100)
        while isRunning(Int32(Int(bitPattern: id))), ContinuousClock.now < end { sched_yield() }
        return true
    }

    /// Whether the number is the id of a thread of this process.
    static func isRunning(_ thread: Int32) -> Bool { czmq_has_thread(thread) }

    /// The version of libzmq at run time. The corresponding C function is `zmq_version`.
    public static var libraryVersion: (major: Int, minor: Int, patch: Int) {
        var (major, minor, patch): (Int32, Int32, Int32) = (0, 0, 0)
        zmq_version(&major, &minor, &patch)
        return (Int(major), Int(minor), Int(patch))
    }

    /// The most sockets of the context; 0 after its end.
    public var maxSockets: Int { Int(withHandle { zmq_ctx_get($0, ZMQ_MAX_SOCKETS) } ?? 0) }

    /// Makes a libzmq socket.
    /// - Throws: ``ZeroMQError``, also for a context that has ended.
    func makeSocket(_ kind: ZeroMQSocket.Kind) throws(ZeroMQError) -> UnsafeMutableRawPointer {
        let (socket, code) =
            withHandle { (zmq_socket($0, kind.code), zmq_errno()) } ?? (nil, ZeroMQError.contextTerminated)
        guard let socket else { throw ZeroMQError(call: "zmq_socket", code: code) }
        return socket
    }

    /// Calls libzmq, unless the context has ended. The call must not block.
    private func withHandle<Value>(_ body: (UnsafeMutableRawPointer) -> Value) -> Value? {
        life.withLock { hasEnded in hasEnded ? nil : body(handle) }
    }

    /// Waits until libzmq has ended the sockets that were closed, at most two seconds. A closed socket holds its descriptor
    /// until then. Sockets that flush, or that have connections to other processes, may take longer.
    ///
    /// - Returns: Whether there were such sockets, and libzmq has ended them.
    public func awaitClosedSockets() -> Bool { closed.awaitEnd(ifMoreThan: 0, in: self) }

    /// Ends the context. The call blocks until all sockets are closed and have flushed or dropped their messages.
    /// The corresponding C function is `zmq_ctx_term`.
    public func terminate() {
        life.withLock { $0 = true }
        while zmq_ctx_term(handle) != 0, zmq_errno() == EINTR {}
    }
}
