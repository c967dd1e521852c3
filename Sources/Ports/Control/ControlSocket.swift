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
    func send(_ message: ControlMessage) -> Bool { send(ControlMessage.largestSize, message.write) }

    /// Sends the first packet of a connection. The socket has room for it, but the kernel may lack memory.
    /// - Returns: False, with an `errno`, when the kernel does not take the packet.
    func send(_ hello: ControlHello) -> Bool {
        send(ControlHello.size) { buffer in
            hello.write(to: buffer)
            return buffer.count
        }
    }

    private func send(_ largest: Int, _ write: (UnsafeMutableRawBufferPointer) -> Int) -> Bool {
        withUnsafeTemporaryAllocation(byteCount: largest, alignment: 8) { buffer in
            let size = write(buffer)
            while Glibc.send(descriptor, buffer.baseAddress, size, Int32(MSG_NOSIGNAL)) < 0 {
                if errno != EINTR { return false }
            }
            return true
        }
    }

    /// Receives a packet without waiting.
    /// - Returns: Nil, with an `errno`, without a packet. At the end of the connection, the `errno` is 0.
    func receive(into buffer: UnsafeMutableRawBufferPointer) -> UnsafeRawBufferPointer? {
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
            if count > 0 { return UnsafeRawBufferPointer(rebasing: buffer[..<count]) }
            if count == 0 { errno = 0 }
            if errno != EINTR { return nil }
        }
    }

    /// Reads the peer's hello without waiting; nil at the end of the connection.
    func receiveHello() -> Result<ControlHello, Wire.Malformed>? {
        withUnsafeTemporaryAllocation(byteCount: 256, alignment: 8) { buffer in
            receive(into: buffer).map { ControlHello($0).map(Result.success) ?? .failure(.badMagic) }
        }
    }
}

/// The address of a process's control socket.
struct ControlAddress: Hashable, Sendable {
    let incarnation: Incarnation
    let directory: String

    var path: String { "\(directory)/\(incarnation)/c" }
}
