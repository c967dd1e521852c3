import CRunLoopShims
import Glibc
import Synchronization

/// The epoll set that a mode sleeps on, with a timerfd for the mode's timers. A descriptor's token identifies its item.
/// Any thread may add, modify and remove while another waits, because epoll allows that.
final class WaitSet: Sendable {
    typealias Token = UInt64
    typealias Event = (token: Token, readiness: RunLoopReadiness)

    let set: Int32
    private let timer: Int32
    private let isClosed = Atomic(false)

    init(timerToken: Token) throws(RunLoopError) {
        (set, timer) = (epoll_create1(Int32(EPOLL_CLOEXEC)), timerfd_create(CLOCK_MONOTONIC, Int32(TFD_CLOEXEC)))
        guard set >= 0, timer >= 0 else { throw .last("epoll_create1, timerfd_create") }
        try add(timer, .readable, token: timerToken)
    }

    deinit { close() }

    /// Closes the set of a loop whose thread has ended. A thread that has ended inside a handler leaves its references to
    /// the set behind.
    func close() {
        guard !isClosed.exchange(true, ordering: .relaxed) else { return }
        Glibc.close(set)
        Glibc.close(timer)
    }

    /// Sets the time of the timer's one expiry; with nil the timer never expires. Clears an expiry that has happened.
    func arm(_ instant: MonotonicInstant?) {
        // 0 would disarm the timer, and the kernel's seconds do not hold an instant in the far future.
        let result = crl_timer_arm(timer, instant.map { min(max($0.nanoseconds, 1), UInt64(Int64.max)) } ?? 0)
        if result != 0 { Descriptor.wasClosed(timer, "a run loop's timerfd") }
    }

    /// With `once`, the set reports the descriptor once each time it becomes ready, not as long as it is ready.
    func add(
        _ descriptor: Int32, _ interest: RunLoopReadiness, once: Bool = false, token: Token
    ) throws(RunLoopError) {
        let events = interest.rawValue | (once ? EPOLLET.rawValue : 0)
        guard crl_epoll_control(set, EPOLL_CTL_ADD, descriptor, events, token) == 0 else {
            throw .last("epoll_ctl", descriptor: descriptor)
        }
    }

    func modify(_ descriptor: Int32, _ interest: RunLoopReadiness, token: Token) {
        _ = crl_epoll_control(set, EPOLL_CTL_MOD, descriptor, interest.rawValue, token)
    }

    func remove(_ descriptor: Int32) { _ = crl_epoll_control(set, EPOLL_CTL_DEL, descriptor, 0, 0) }

    /// Waits for one event, which the kernel reports in turn. Nil when the deadline, which may have passed, came first.
    func wait(until deadline: MonotonicInstant) -> Event? {
        var event = crl_event()
        while true {
            let count = crl_epoll_wait_one(set, &event, deadline.timeout)
            if count == 1 { return (event.token, RunLoopReadiness(rawValue: event.events)) }
            if count == 0 { return nil }
            if errno != EINTR { Descriptor.wasClosed(set, "a run loop's epoll descriptor") }
        }
    }
}
