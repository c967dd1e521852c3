import Glibc
import RunLoops

/// Tells whether descriptor 2 is still the standard error. After a program has closed it, another file may get the
/// number.
struct StandardError {
    private let descriptor: Int32
    private let first: FileIdentity?

    init(_ descriptor: Int32 = STDERR_FILENO) {
        self.descriptor = descriptor
        first = FileIdentity(of: descriptor)
    }

    /// Whether the descriptor is a file, a terminal or a pipe, which the program may have put in the place of the first
    /// one. A descriptor that is closed on exec does not count, because children inherit a standard error. A socket
    /// counts if it was there from the beginning, as under systemd.
    var isInPlace: Bool {
        let flags = fcntl(descriptor, F_GETFD)
        var status = stat()
        guard flags >= 0, flags & FD_CLOEXEC == 0, fstat(descriptor, &status) == 0 else { return false }
        return [S_IFREG, S_IFCHR, S_IFIFO].contains(status.st_mode & S_IFMT) || FileIdentity(status) == first
    }
}
