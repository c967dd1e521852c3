import CRunLoopShims
import Glibc
import RunLoops

/// An epoll set that reports once that one descriptor is ready. Used under the lock of its owner.
///
/// A CFRunLoop waits for the set, not for the descriptor: it would read bytes from the descriptor, and report it as long
/// as it is ready.
final class OneShotReadiness: Sendable {
    private let ready: DescriptorSet
    private let watched: Int32
    /// In place of a regular file, which the kernel cannot watch, because it is always ready.
    private let substitute: EventDescriptor?

    /// Nil when the descriptor is not open, or no descriptor is left.
    init?(_ descriptor: Int32) {
        guard let ready = try? DescriptorSet() else { return nil }
        if crl_epoll_control(ready.descriptor, EPOLL_CTL_ADD, descriptor, 0, 0) == 0 {
            (watched, substitute) = (descriptor, nil)
        } else {
            guard errno == EPERM, let event = try? EventDescriptor() else { return nil }
            event.raise()
            (watched, substitute) = (event.descriptor, event)
        }
        self.ready = ready
        end()
    }

    /// The number of the set's descriptor.
    var descriptor: Int32 { ready.descriptor }

    /// Arms the set: it reports the descriptor once, when that is ready for one of these.
    func arm(_ interest: RunLoopReadiness) {
        // The kernel adds errors and ends to any set of events, so without interest the descriptor has to leave.
        guard !interest.isEmpty else { return end() }
        let events = interest.rawValue | EPOLLONESHOT.rawValue
        if crl_epoll_control(ready.descriptor, EPOLL_CTL_MOD, watched, events, 0) == 0 { return }
        _ = crl_epoll_control(ready.descriptor, EPOLL_CTL_ADD, watched, events, 0)
    }

    /// The readiness that the set reports, which disarms it. An error or an end counts for both directions.
    func take() -> RunLoopReadiness {
        var event = crl_event()
        guard crl_epoll_wait_one(ready.descriptor, &event, 0) == 1 else { return [] }
        let told = RunLoopReadiness(rawValue: event.events)
        return told.isDisjoint(with: [.error, .hangUp]) ? told : [.readable, .writable]
    }

    /// The descriptor is the program's again.
    func end() { _ = crl_epoll_control(ready.descriptor, EPOLL_CTL_DEL, watched, 0, 0) }
}
