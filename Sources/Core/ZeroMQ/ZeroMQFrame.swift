import CZeroMQ
import Glibc

/// A message of libzmq, sent as a whole. The corresponding C type is `zmq_msg_t`.
///
/// The bytes of a small frame are inside the value itself, so they can be read only in place.
public struct ZeroMQFrame: ~Copyable, @unchecked Sendable {
    // Sound: one owner at a time, and libzmq's reference counts are atomic.
    @usableFromInline var message = zmq_msg_t()

    /// An empty frame, to receive into. The corresponding C function is `zmq_msg_init`.
    @inlinable public init() { zmq_msg_init(&message) }

    /// Makes a frame of uninitialized bytes. The corresponding C function is `zmq_msg_init_size`.
    /// - Throws: ``ZeroMQError`` when no memory is left.
    public init(count: Int) throws(ZeroMQError) {
        guard zmq_msg_init_size(&message, count) == 0 else {
            let error = ZeroMQError.last("zmq_msg_init_size")
            zmq_msg_init(&message)
            throw error
        }
    }

    @inlinable deinit {
        // A message may be moved in memory. The last owner closes the message.
        var message = message
        zmq_msg_close(&message)
    }

    /// The number of bytes. The corresponding C function is `zmq_msg_size`.
    @inlinable public var count: Int { withUnsafePointer(to: message) { zmq_msg_size($0) } }

    /// Whether more frames of the same ZeroMQ message follow. The corresponding C function is `zmq_msg_more`.
    @inlinable public var isFollowed: Bool { withUnsafePointer(to: message) { zmq_msg_more($0) != 0 } }

    /// Lets `body` read the bytes in place. The buffer is invalid after the call.
    @inlinable
    public func withUnsafeBytes<R, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R) throws(E) -> R {
        try withUnsafePointer(to: message) { (pointer) throws(E) -> R in
            let pointer = UnsafeMutablePointer(mutating: pointer)
            return try body(UnsafeRawBufferPointer(start: zmq_msg_data(pointer), count: zmq_msg_size(pointer)))
        }
    }

    /// Lets `body` write the bytes in place. The buffer is invalid after the call.
    @inlinable
    public mutating func withUnsafeMutableBytes(_ body: (UnsafeMutableRawBufferPointer) -> Void) {
        withUnsafeMutablePointer(to: &message) { pointer in
            body(UnsafeMutableRawBufferPointer(start: zmq_msg_data(pointer), count: zmq_msg_size(pointer)))
        }
    }

    /// A property of the connection that brought the frame, such as `Peer-Address`. The corresponding C function is
    /// `zmq_msg_gets`.
    public func property(_ name: StaticString) -> String? {
        withProperty(name) { String(decoding: $0, as: UTF8.self) }
    }

    /// Lets `body` read a property in place, as ``property(_:)`` returns it.
    @inlinable
    public func withProperty<R>(_ name: StaticString, _ body: (UnsafeBufferPointer<UInt8>) -> R) -> R? {
        // Static, because another string would be copied for each message that wakes a port.
        name.utf8Start.withMemoryRebound(to: CChar.self, capacity: name.utf8CodeUnitCount + 1) { name in
            withUnsafePointer(to: message) { message -> R? in
                guard let text = zmq_msg_gets(message, name) else { return nil }
                let bytes = UnsafeRawBufferPointer(start: text, count: strlen(text))
                return body(bytes.assumingMemoryBound(to: UInt8.self))
            }
        }
    }
}
