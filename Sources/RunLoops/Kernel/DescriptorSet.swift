import CRunLoopShims
import Glibc

/// An epoll set that is only asked whether it is readable: it is while one of its descriptors is.
package final class DescriptorSet: Sendable {
    package let descriptor: Int32

    package init() throws(RunLoopError) {
        descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard descriptor >= 0 else { throw .last("epoll_create1") }
    }

    deinit { close(descriptor) }

    /// Keeps nothing open: the set forgets a descriptor when the last of its duplicates is closed.
    package func add(_ descriptor: Int32) throws(RunLoopError) {
        let events = ThreadRunLoop.Readiness.readable.rawValue
        guard crl_epoll_control(self.descriptor, EPOLL_CTL_ADD, descriptor, events, 0) == 0 else {
            throw .last("epoll_ctl", descriptor: descriptor)
        }
    }
}
