import CRunLoopShims
import Glibc
import RunLoops

/// One end of the pair of sockets beside a ring. The sender rings the receiver, whose set of bells hears it, and the
/// receiver rings a sender that waits for room. The memory of large messages goes the same way. Nobody else can take or block
/// what is sent, because only these two processes own an end.
final class Bell: Sendable {
    private let end: OwnedDescriptor
    var descriptor: Int32 { end.number }
    /// The signals after which the receiver reads the bytes. A socket has room for many more.
    let patience: Int

    init(_ end: OwnedDescriptor) {
        self.end = end
        var (size, length) = (0 as Int32, socklen_t(MemoryLayout<Int32>.size))
        getsockopt(end.number, SOL_SOCKET, SO_SNDBUF, &size, &length)
        patience = min(max(Int(size) / 8192, 1), 16)
    }

    /// Makes a pair: the receiver's end, and the end to hand over.
    static func make() -> (own: Bell, other: OwnedDescriptor)? {
        var ends: [Int32] = [-1, -1]
        guard crl_socket_pair(&ends) == 0 else { return nil }
        return (Bell(OwnedDescriptor(ends[0])), OwnedDescriptor(ends[1]))
    }

    /// Never waits. A socket without room has been rung already.
    /// - Returns: False when the kernel had no memory for the signal, and somebody has to ring again.
    @discardableResult
    func ring() -> Bool {
        switch crl_ring(descriptor) {
        case ENOMEM, ENOBUFS: false
        default: true
        }
    }

    /// Rings now, or when the kernel has memory for the signal.
    @inline(never)
    func ring(orLaterOn housekeeping: Housekeeping) {
        if ring() { return }
        housekeeping.perform(after: .milliseconds(10)) { self.ring(orLaterOn: housekeeping) }
    }

    /// Drops the signals that came.
    /// - Returns: False when the other end is closed.
    func hear() -> Bool { crl_hear(descriptor) }

    // MARK: Memory

    /// Hands over memory without waiting. The receiver has it when this call returns.
    /// - Returns: False while the kernel has no room for it.
    func send(_ memory: OwnedDescriptor) -> Bool {
        var (byte, number) = (Int8(CRL_MEMORY), memory.number)
        return crl_send_packet(descriptor, &byte, 1, &number, 1) == 0
    }

    /// Drops the signals that came, and calls the closure with the memory that came, in order: nil for memory for which this
    /// process has had no descriptor.
    /// - Parameter body: Returns whether to go on.
    func hear(_ body: (OwnedDescriptor?) -> Bool) {
        var number: Int32 = -1
        while crl_hear_memory(descriptor, &number), body(number < 0 ? nil : OwnedDescriptor(number)) {}
    }
}
