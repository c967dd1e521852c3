import CRunLoopShims
import Glibc

/// The socket of a control connection. The last release closes it. A fork closes it in the child, where an open copy
/// would make a dead parent seem alive.
final class ControlSocket: Sendable {
    let descriptor: Int32

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    // The fork has closed the descriptor in the child, where another file may have the number.
    deinit { if !Fork.isChild { crl_unforked_close(descriptor) } }

    var hasHungUp: Bool { crl_has_hung_up(descriptor) }
    /// Whether the peer has not read everything that was sent.
    var hasUnread: Bool { LocalSocket.hasUnread(descriptor) }

    /// Ends the connection. Both sides see its end when they wait for packets.
    func cut() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    func duplicate() -> ControlSocket? {
        let copy = crl_unforked_duplicate(descriptor)
        return copy < 0 ? nil : ControlSocket(copy)
    }

    /// Sends a packet without waiting.
    /// - Returns: False, with an `errno`, when the kernel does not take the packet.
    func send(_ message: ControlMessage, _ descriptors: [OwnedDescriptor] = []) -> Bool {
        send(ControlMessage.largestSize, descriptors, message.write)
    }

    /// Sends the first packet of a connection. The socket has room for it, but the kernel may lack memory.
    /// - Returns: False, with an `errno`, when the kernel does not take the packet.
    func send(_ hello: ControlHello) -> Bool {
        send(ControlHello.size, []) { buffer in
            hello.write(to: buffer)
            return buffer.count
        }
    }

    private func send(
        _ largest: Int, _ descriptors: [OwnedDescriptor], _ write: (UnsafeMutableRawBufferPointer) -> Int
    ) -> Bool {
        withUnsafeTemporaryAllocation(byteCount: largest, alignment: 8) { buffer in
            let size = write(buffer)
            // At most two.
            let numbers = descriptors.map(\.number)
            return withExtendedLifetime(descriptors) {
                crl_send_packet(descriptor, buffer.baseAddress, size, numbers, Int32(numbers.count)) == 0
            }
        }
    }

    /// Receives a packet without waiting.
    /// - Returns: Nil, with an `errno`, without a packet. At the end of the connection, the `errno` is 0.
    /// - Parameter descriptors: Set to the descriptors that came with the packet. The kernel leaves out descriptors for
    ///   which this process has no room.
    func receive(
        into buffer: UnsafeMutableRawBufferPointer, _ descriptors: inout [OwnedDescriptor]
    ) -> UnsafeRawBufferPointer? {
        var numbers: [2 of Int32] = [-1, -1]
        var count: Int32 = 0
        var span = numbers.mutableSpan
        let size = span.withUnsafeMutableBufferPointer {
            crl_receive_packet(descriptor, buffer.baseAddress, buffer.count, $0.baseAddress, 2, &count)
        }
        if count > 0 { descriptors = (0..<Int(count)).map { OwnedDescriptor(span[$0]) } }
        if size > 0 { return UnsafeRawBufferPointer(rebasing: buffer[..<size]) }
        if size == 0 { errno = 0 }
        return nil
    }

    /// Reads the peer's hello without waiting; nil at the end of the connection.
    func receiveHello() -> Result<ControlHello, Wire.Malformed>? {
        withUnsafeTemporaryAllocation(byteCount: 256, alignment: 8) { buffer in
            var descriptors: [OwnedDescriptor] = []
            return receive(into: buffer, &descriptors).map { packet in
                ControlHello(packet).map(Result.success) ?? .failure(.badMagic)
            }
        }
    }
}

/// The address of a process's control socket.
struct ControlAddress: Hashable, Sendable {
    let incarnation: Incarnation
    let directory: String

    var path: String { "\(directory)/\(incarnation)/c" }
}
