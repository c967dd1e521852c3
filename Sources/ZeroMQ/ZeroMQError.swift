import CZeroMQ
import Glibc

/// A call into libzmq that failed.
public struct ZeroMQError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The C function's name.
    public let call: String
    /// The error's number: an `errno`, or one of libzmq's own.
    public let code: Int32

    /// The code of calls on sockets whose context was terminated. The corresponding C constant is `ETERM`.
    public static let contextTerminated: Int32 = 156_384_765

    /// What the last call on this thread has left.
    static func last(_ call: String) -> ZeroMQError { ZeroMQError(call: call, code: zmq_errno()) }

    /// The call and libzmq's words for the error.
    public var description: String { "\(call) failed: \(String(cString: zmq_strerror(code)))" }
}
