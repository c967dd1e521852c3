import CZeroMQ
import Glibc

/// A context of sockets, for any thread: the scope of inproc addresses, and the I/O thread of the other connections.
public final class Context: @unchecked Sendable {
    // Sound: libzmq's contexts are thread-safe.
    let handle: UnsafeMutableRawPointer
    private let owner = getpid()
    let closed = ClosedSockets()

    /// False in a forked child of the process that made the context.
    var isOwn: Bool { getpid() == owner }

    /// Makes a context. The corresponding C function is `zmq_ctx_new`.
    ///
    /// libzmq starts its threads with the first socket, and aborts the process when that fails. So threads are tried
    /// first; make a socket soon.
    /// - Throws: ``ZeroMQError``; `EAGAIN` of `pthread_create` when no thread is left.
    public init(maxSockets: Int32? = nil) throws(ZeroMQError) {
        // One carries bytes between processes, and one closes the sockets.
        guard Self.canStart(2) else { throw ZeroMQError(call: "pthread_create", code: EAGAIN) }
        guard let handle = zmq_ctx_new() else { throw .last("zmq_ctx_new") }
        self.handle = handle
        if let maxSockets {
            zmq_ctx_set(handle, ZMQ_MAX_SOCKETS, min(maxSockets, zmq_ctx_get(handle, ZMQ_SOCKET_LIMIT)))
        }
    }

    /// Whether so many threads can exist at once: each starts the next.
    private static func canStart(_ count: Int) -> Bool {
        guard count > 0 else { return true }
        var (thread, id) = (pthread_t(), UnsafeMutableRawPointer?.none)
        let error = pthread_create(
            &thread, nil,
            { count in
                guard Context.canStart(Int(bitPattern: count) - 1) else { return nil }
                return UnsafeMutableRawPointer(bitPattern: Int(czmq_thread_id()))
            }, UnsafeMutableRawPointer(bitPattern: count))
        guard error == 0 else { return false }
        pthread_join(thread, &id)
        guard let id else { return false }
        // The kernel counts an ended thread for a moment more.
        while isRunning(Int32(Int(bitPattern: id))) { sched_yield() }
        return true
    }

    /// Whether the number is one of a thread of this process.
    static func isRunning(_ thread: Int32) -> Bool { czmq_has_thread(thread) }

    /// The version of libzmq at run time. The corresponding C function is `zmq_version`.
    public static var libraryVersion: (major: Int, minor: Int, patch: Int) {
        var (major, minor, patch): (Int32, Int32, Int32) = (0, 0, 0)
        zmq_version(&major, &minor, &patch)
        return (Int(major), Int(minor), Int(patch))
    }

    /// The most sockets of the context.
    public var maxSockets: Int { Int(zmq_ctx_get(handle, ZMQ_MAX_SOCKETS)) }

    /// Waits until libzmq has ended the sockets that were closed, at most two seconds. A closed socket holds its descriptor
    /// until then. Sockets that flush, or that have connections to other processes, may take longer.
    ///
    /// - Returns: Whether there were such sockets, and libzmq has ended them.
    public func awaitClosedSockets() -> Bool { closed.awaitEnd(ifMoreThan: 0, in: self) }

    /// Ends the context. The call blocks until all sockets are closed and have flushed or dropped their messages.
    /// The corresponding C function is `zmq_ctx_term`.
    public func terminate() { while zmq_ctx_term(handle) != 0, zmq_errno() == EINTR {} }
}
