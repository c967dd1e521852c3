import CZeroMQ

/// A failed call of libzmq.
public struct ZeroMQError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The C function's name.
    public let call: String
    /// The error number: an `errno`, or a number of libzmq.
    public let code: Int32

    /// The error of calls on sockets of a terminated context. The corresponding C constant is `ETERM`.
    public static let contextTerminated: Int32 = 156_384_765

    static func last(_ call: String) -> ZeroMQError { ZeroMQError(call: call, code: zmq_errno()) }

    /// The call, and libzmq's text for the error.
    public var description: String { "\(call) failed: \(String(cString: zmq_strerror(code)))" }
}
