import CRunLoopShims
import Glibc

/// The socket of a control connection, until the last release. No forked child has it: a dead parent would seem alive.
final class ControlSocket: Sendable {
    let descriptor: Int32

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    // A fork closes the descriptor in the child, where another file may have the number.
    deinit { if !Fork.isChild { crl_unforked_close(descriptor) } }

    var hasHungUp: Bool { crl_has_hung_up(descriptor) }
    /// Whether the peer has not read everything that was sent.
    var hasUnread: Bool { LocalSocket.hasUnread(descriptor) }

    /// Ends the connection: whoever waits for packets learns it as the end.
    func cut() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    func duplicate() -> ControlSocket? {
        let copy = crl_unforked_duplicate(descriptor)
        return copy < 0 ? nil : ControlSocket(copy)
    }

    /// Sends a packet without waiting. False, and an `errno`, when the kernel does not take the packet.
    func send(_ message: ControlMessage) -> Bool { send(ControlMessage.largestSize, message.write) }

    /// The first packet of a connection has room, but the kernel may lack memory: then false, and an `errno`.
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

    /// Receives a packet without waiting; nil, and an `errno`, without one. At the connection's end, that is 0.
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

/// Where the control socket of a process is.
struct ControlAddress: Hashable, Sendable {
    let incarnation: Incarnation
    let directory: String

    var path: String { "\(directory)/\(incarnation)/c" }
}
