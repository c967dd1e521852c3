import CZeroMQ
import Glibc

/// What sockets live in: inproc addresses are known inside one context, and its I/O threads serve the others.
///
/// A context may be used by any thread.
public final class Context: @unchecked Sendable {
    // Sound: libzmq's contexts are thread-safe.
    let handle: UnsafeMutableRawPointer
    private let owner = getpid()

    /// False in a fork of the process that made it.
    var isOwn: Bool { getpid() == owner }

    /// Makes a context. The corresponding C function is `zmq_ctx_new`.
    ///
    /// - Parameters:
    ///   - ioThreads: How many threads carry bytes between processes.
    ///   - maxSockets: How many sockets it can hold.
    /// - Throws: ``ZeroMQError``.
    public init(ioThreads: Int32 = 1, maxSockets: Int32? = nil) throws(ZeroMQError) {
        guard let handle = zmq_ctx_new() else { throw .last("zmq_ctx_new") }
        self.handle = handle
        zmq_ctx_set(handle, ZMQ_IO_THREADS, ioThreads)
        if let maxSockets {
            zmq_ctx_set(handle, ZMQ_MAX_SOCKETS, min(maxSockets, zmq_ctx_get(handle, ZMQ_SOCKET_LIMIT)))
        }
    }

    /// The version of libzmq that the program runs with. The corresponding C function is `zmq_version`.
    public static var libraryVersion: (major: Int, minor: Int, patch: Int) {
        var (major, minor, patch): (Int32, Int32, Int32) = (0, 0, 0)
        zmq_version(&major, &minor, &patch)
        return (Int(major), Int(minor), Int(patch))
    }

    /// How many sockets the context can hold.
    public var maxSockets: Int { Int(zmq_ctx_get(handle, ZMQ_MAX_SOCKETS)) }

    /// Ends the context, once all its sockets are closed and what they had to send is sent or given up.
    /// Until then it blocks. The corresponding C function is `zmq_ctx_term`.
    public func terminate() {
        while zmq_ctx_term(handle) != 0, zmq_errno() == EINTR {}
    }
}
