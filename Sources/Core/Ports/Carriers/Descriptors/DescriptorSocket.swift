import CRunLoopShims
import Glibc

/// One end of a pair of sockets that passes the descriptors of one process's messages to one port. Each packet has the
/// descriptors of one message, and is with the kernel before the message is sent, so that whoever takes the message finds
/// the packet. In the other direction the port reports the packets that it has taken.
///
/// The sockets are streams, which the kernel reads to their end when the sender has died with reports unread. It never
/// joins bytes that have descriptors, and all packets of this library have one size.
final class DescriptorSocket: Sendable {
    private let end: OwnedDescriptor
    var descriptor: Int32 { end.number }

    init(_ end: OwnedDescriptor) { self.end = end }

    /// Whether the other end is closed.
    var hasHungUp: Bool { crl_has_hung_up(descriptor) }

    /// Makes a pair: the port's end, and the end to hand over.
    static func make() -> (own: DescriptorSocket, other: OwnedDescriptor)? {
        var ends: [Int32] = [-1, -1]
        guard crl_socket_pair(&ends) == 0 else { return nil }
        return (DescriptorSocket(OwnedDescriptor(ends[0])), OwnedDescriptor(ends[1]))
    }

    private static let packetSize = 16

    struct Packet {
        /// The number of the packet, which the message has, too.
        let number: UInt64
        /// The number of descriptors, by the sender's word.
        let count: UInt64
        let descriptors: [Int32]
    }

    /// Sends a packet without waiting.
    /// - Returns: 0, or an `errno`.
    func send(_ number: UInt64, _ descriptors: [Int32]) -> Int32 {
        let fields = [number.littleEndian, UInt64(descriptors.count).littleEndian]
        return crl_send_packet(descriptor, fields, Self.packetSize, descriptors, Int32(descriptors.count)) == 0
            ? 0 : errno
    }

    /// Receives a packet without waiting; nil without one. The kernel leaves out descriptors for which this process has no
    /// room, or which are more than `most`.
    func receive(most: Int = MessageDescriptor.largestCount) -> Packet? {
        withUnsafeTemporaryAllocation(of: Int32.self, capacity: most) { numbers in
            var fields: [2 of UInt64] = [0, 0]
            var count: Int32 = 0
            var span = fields.mutableSpan
            let size = span.withUnsafeMutableBufferPointer {
                crl_receive_packet(
                    descriptor, $0.baseAddress, Self.packetSize, numbers.baseAddress, Int32(most), &count)
            }
            // The end of the connection has neither bytes nor descriptors.
            guard size > 0 || count > 0 else { return nil }
            return Packet(
                number: size == Self.packetSize ? UInt64(littleEndian: span[0]) : 0,
                count: UInt64(littleEndian: span[1]),
                descriptors: Array(numbers.prefix(Int(count))))
        }
    }

    /// The number of packets that wait.
    var waitingCount: Int {
        var bytes: Int32 = 0
        return ioctl(descriptor, UInt(FIONREAD), &bytes) == 0 ? Int(bytes) / Self.packetSize : 0
    }

    /// Tells the sender that everything up to a packet was taken. Without room, the next report tells it.
    func report(taken number: UInt64) { _ = send(number, []) }

    /// The last packet that the port has taken, if it has reported any since the last call.
    func lastReport() -> UInt64? {
        var last: UInt64?
        // A port of this library reports once for each message, and each message in flight has a descriptor.
        for _ in 0..<1024 {
            guard let report = receive(most: 0) else { break }
            last = report.number
        }
        return last
    }
}
