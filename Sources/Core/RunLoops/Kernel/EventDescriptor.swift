import CRunLoopShims
import Glibc

/// An eventfd. One side raises it, and the other waits for it. A forked child, which shares it, does neither.
package final class EventDescriptor: Sendable {
    package let descriptor: Int32

    package init() throws(RunLoopError) {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard descriptor >= 0 else { throw .last("eventfd") }
    }

    package func raise() {
        if crl_is_forked() { return }
        Self.raise(descriptor)
    }

    static func raise(_ descriptor: Int32) {
        var one: UInt64 = 1
        guard write(descriptor, &one, 8) < 0 else { return }
        // The write to a full counter fails, but then the eventfd is raised already.
        if errno == EBADF || errno == EINVAL { Descriptor.wasClosed(descriptor, "an eventfd that wakes a run loop") }
    }

    /// Lowers the eventfd, and returns how often it was raised.
    @discardableResult
    package func clear() -> UInt64 {
        if crl_is_forked() { return 0 }
        var count: UInt64 = 0
        return read(descriptor, &count, 8) == 8 ? count : 0
    }

    deinit { close(descriptor) }
}
