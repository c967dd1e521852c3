import Glibc
import RunLoops

/// Whether descriptor 2 is still a standard error. When a program has closed it, another file may get the number.
struct StandardError {
    private let descriptor: Int32
    private let first: FileIdentity?

    init(_ descriptor: Int32 = STDERR_FILENO) {
        self.descriptor = descriptor
        first = FileIdentity(of: descriptor)
    }

    /// A program may put a log file, a terminal or a pipe in its place. Children inherit a standard error, so what is
    /// closed on exec is none. A socket is one if it was from the beginning, as under systemd.
    var isInPlace: Bool {
        let flags = fcntl(descriptor, F_GETFD)
        var status = stat()
        guard flags >= 0, flags & FD_CLOEXEC == 0, fstat(descriptor, &status) == 0 else { return false }
        return [S_IFREG, S_IFCHR, S_IFIFO].contains(status.st_mode & S_IFMT) || FileIdentity(status) == first
    }
}
