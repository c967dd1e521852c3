import Glibc
import RunLoops

/// Descriptors that stay free for libzmq, which aborts the process when it accepts a connection and none is left. When
/// fewer are free, connections are refused (see ``AcceptGuard``), and no port, channel or handshake is made.
enum DescriptorReserve {
    static let size = 64

    /// Whether the reserve is untouched.
    static var isLeft: Bool {
        let lowestFree = fcntl(0, F_DUPFD_CLOEXEC, 0)
        guard lowestFree >= 0 else { return errno != EMFILE }
        close(lowestFree)
        return Int(lowestFree) < Int(clamping: Descriptor.limit) - size
    }
}
