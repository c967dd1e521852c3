import CRunLoopShims
import Glibc

/// The socket of a control connection, until the last release. No forked child has it: a dead parent would seem alive.
final class ControlSocket: Sendable {
    let descriptor: Int32

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    // A fork closes the descriptor in the child, where another file may have the number.
    deinit { if !Fork.isChild { crl_unforked_close(descriptor) } }

    var hasHungUp: Bool { crl_has_hung_up(descriptor) }

    /// Sends a packet without waiting. False, and an `errno`, when the kernel does not take the packet.
    /// - Parameter write: Writes the packet, and returns its size.
    func send(upTo largest: Int, _ write: (UnsafeMutableRawBufferPointer) -> Int) -> Bool {
        withUnsafeTemporaryAllocation(byteCount: largest, alignment: 8) { buffer in
            let size = write(buffer)
            while Glibc.send(descriptor, buffer.baseAddress, size, Int32(MSG_NOSIGNAL)) < 0 {
                if errno != EINTR { return false }
            }
            return true
        }
    }

    /// Receives a packet without waiting. Returns its size, 0 at the connection's end, -1 and an `errno` without one.
    func receive(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
            if count >= 0 || errno != EINTR { return count }
        }
    }
}
