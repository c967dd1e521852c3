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
        try add(descriptor, RunLoopReadiness.readable.rawValue, token: 0)
    }

    /// Adds a descriptor that ``take(_:)`` reports. Edge-triggered: what nobody has read does not keep the set readable.
    package func add(_ descriptor: Int32, token: UInt64) throws(RunLoopError) {
        try add(descriptor, RunLoopReadiness.readable.rawValue | EPOLLET.rawValue, token: token)
    }

    private func add(_ descriptor: Int32, _ events: UInt32, token: UInt64) throws(RunLoopError) {
        guard crl_epoll_control(self.descriptor, EPOLL_CTL_ADD, descriptor, events, token) == 0 else {
            throw .last("epoll_ctl", descriptor: descriptor)
        }
    }

    /// Removes a descriptor. Needed before it is closed: a forked child may have a copy, which would stay in the set.
    package func remove(_ descriptor: Int32) { _ = crl_epoll_control(self.descriptor, EPOLL_CTL_DEL, descriptor, 0, 0) }

    /// Calls the closure with the tokens of the descriptors that became readable since the last call.
    package func take(_ body: (UInt64) -> Void) {
        withUnsafeTemporaryAllocation(of: UInt64.self, capacity: 16) { tokens in
            while true {
                let count = Int(crl_epoll_take(descriptor, tokens.baseAddress))
                for token in tokens.prefix(count) { body(token) }
                if count < 16 { return }
            }
        }
    }
}
