import CShims
import Glibc

/// The epoll set that a mode sleeps on. Each descriptor has a token that identifies its item.
///
/// Any thread may add, modify and remove while another waits: epoll allows that.
final class WaitSet: Sendable {
    typealias Token = UInt64

    struct Event {
        var token: Token
        var readiness: ThreadRunLoop.Readiness
    }

    enum Trigger {
        /// Reports the descriptor as long as it is ready.
        case level
        /// Reports the descriptor once each time it becomes ready.
        case edge
    }

    private let set: Int32

    init() throws(RunLoopError) {
        set = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard set >= 0 else { throw .last("epoll_create1") }
    }

    deinit { close(set) }

    func add(
        _ descriptor: Int32, _ interest: ThreadRunLoop.Readiness, trigger: Trigger = .level, token: Token
    ) throws(RunLoopError) {
        let events = interest.rawValue | (trigger == .edge ? EPOLLET.rawValue : 0)
        guard crl_epoll_control(set, EPOLL_CTL_ADD, descriptor, events, token) == 0 else {
            throw .last("epoll_ctl", descriptor: descriptor)
        }
    }

    func modify(_ descriptor: Int32, _ interest: ThreadRunLoop.Readiness, token: Token) {
        _ = crl_epoll_control(set, EPOLL_CTL_MOD, descriptor, interest.rawValue, token)
    }

    func remove(_ descriptor: Int32) {
        _ = crl_epoll_control(set, EPOLL_CTL_DEL, descriptor, 0, 0)
    }

    /// Waits for one event: a pass serves one source, and the kernel reports ready descriptors in turn.
    ///
    /// - Returns: The event, or nil when the deadline came first. A deadline in the past polls.
    func wait(until deadline: MonotonicInstant) -> Event? {
        var event = crl_event()
        while true {
            let count = crl_epoll_wait_one(set, &event, deadline.timeout)
            if count == 1 { return Event(token: event.token, readiness: .init(rawValue: event.events)) }
            if count == 0 { return nil }
            if errno != EINTR { Descriptor.wasClosed(set, "a run loop's epoll descriptor") }
        }
    }
}
