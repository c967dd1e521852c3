import CRunLoopShims
import Glibc

/// A timerfd, kept in a wait set: when it expires, the mode has timers due.
final class TimerDescriptor: Sendable {
    let descriptor: Int32

    init() throws(RunLoopError) {
        descriptor = timerfd_create(CLOCK_MONOTONIC, Int32(TFD_CLOEXEC | TFD_NONBLOCK))
        guard descriptor >= 0 else { throw .last("timerfd_create") }
    }

    /// Sets when it expires, once; nil: never. Either way it is no longer expired.
    func arm(_ instant: MonotonicInstant?) {
        // 0 would disarm it, and an instant in the far future does not fit the kernel's seconds.
        let result = crl_timer_arm(descriptor, instant.map { min(max($0.nanoseconds, 1), UInt64(Int64.max)) } ?? 0)
        if result != 0 { Descriptor.wasClosed(descriptor, "a run loop's timerfd") }
    }

    deinit { close(descriptor) }
}
