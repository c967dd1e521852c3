import CShims
import Glibc

/// A timerfd in a mode's wait set: it expires when the mode has a timer due.
final class TimerDescriptor: Sendable {
    let descriptor: Int32

    init() throws(RunLoopError) {
        descriptor = timerfd_create(CLOCK_MONOTONIC, Int32(TFD_CLOEXEC | TFD_NONBLOCK))
        guard descriptor >= 0 else { throw .last("timerfd_create") }
    }

    /// Sets the time of the one expiry; nil: never. Clears an expiry that has happened.
    func arm(_ instant: MonotonicInstant?) {
        // 0 would disarm the timer, and the kernel's seconds do not hold an instant in the far future.
        let result = crl_timer_arm(descriptor, instant.map { min(max($0.nanoseconds, 1), UInt64(Int64.max)) } ?? 0)
        if result != 0 { Descriptor.wasClosed(descriptor, "a run loop's timerfd") }
    }

    deinit { close(descriptor) }
}
