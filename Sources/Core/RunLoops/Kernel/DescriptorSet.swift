import CRunLoopShims
import Glibc

/// An epoll set that is readable while one of its descriptors is.
package final class DescriptorSet: Sendable {
    package let descriptor: Int32

    package init() throws(RunLoopError) {
        descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard descriptor >= 0 else { throw .last("epoll_create1") }
    }

    deinit { close(descriptor) }

    /// Adds a descriptor. The set does not keep it open, and forgets it when the last of its duplicates is closed.
    package func add(_ descriptor: Int32) throws(RunLoopError) {
        let events = RunLoopReadiness.readable.rawValue
        guard crl_epoll_control(self.descriptor, EPOLL_CTL_ADD, descriptor, events, 0) == 0 else {
            throw .last("epoll_ctl", descriptor: descriptor)
        }
    }
}
