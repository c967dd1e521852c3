import Glibc
import RunLoops

/// Descriptors that stay free for libzmq, which ends the process when a connection comes in and there is none. Below
/// the reserve no connection is let in (see AcceptGuard), and no port, channel or handshake is made.
enum DescriptorReserve {
    static let size = 64

    static func check() throws(PortError) {
        let lowestFree = fcntl(0, F_DUPFD_CLOEXEC, 0)
        if lowestFree >= 0 { close(lowestFree) }
        let limit = Int(clamping: Descriptor.limit)
        let isExhausted = lowestFree < 0 ? errno == EMFILE : Int(lowestFree) >= limit - size
        if isExhausted { throw .outOfDescriptors(limit: limit) }
    }
}
