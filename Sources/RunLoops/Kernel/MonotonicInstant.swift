import CRunLoopShims

/// A point on the machine's monotonic clock: a deadline or a fire date. The clock does not jump when the wall clock is
/// set, and stands still while the machine is suspended, as CFRunLoop's.
public struct MonotonicInstant: InstantProtocol, Sendable, Hashable {
    /// Nanoseconds since the clock's origin, some point before the process started.
    public let nanoseconds: UInt64

    /// The instant this many nanoseconds after the clock's origin.
    public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    /// The moment of a deadline, nil for none, on this clock: measured from now, so that a suspension of the machine
    /// puts the deadline off.
    package init(_ deadline: ContinuousClock.Instant?) {
        guard let deadline else { self = .distantFuture; return }
        self = .now + ContinuousClock.now.duration(to: deadline)
    }

    /// The present moment.
    public static var now: MonotonicInstant { MonotonicInstant(nanoseconds: crl_now()) }

    /// Later than every other instant: a deadline that never comes.
    public static let distantFuture = MonotonicInstant(nanoseconds: .max)

    /// Earlier than every other instant: a deadline that has always passed.
    public static let distantPast = MonotonicInstant(nanoseconds: 0)

    /// This instant moved by a duration, at most to ``distantPast`` or ``distantFuture``.
    public func advanced(by duration: Duration) -> MonotonicInstant {
        guard self != .distantFuture else { return self }
        let moved = Int128(nanoseconds) + duration.attoseconds / 1_000_000_000
        return MonotonicInstant(nanoseconds: UInt64(clamping: moved))
    }

    /// The duration from this instant to another: negative when the other is earlier.
    public func duration(to other: MonotonicInstant) -> Duration {
        Duration(attoseconds: (Int128(other.nanoseconds) - Int128(nanoseconds)) * 1_000_000_000)
    }

    /// Whether the instant is now or in the past.
    public var hasPassed: Bool { nanoseconds <= crl_now() }

    /// An instant moved by a duration.
    public static func + (instant: Self, duration: Duration) -> Self { instant.advanced(by: duration) }

    /// An instant moved back by a duration.
    public static func - (instant: Self, duration: Duration) -> Self { instant.advanced(by: .zero - duration) }

    /// The duration from the right instant to the left: negative when the left is earlier.
    public static func - (left: Self, right: Self) -> Duration { right.duration(to: left) }

    /// Whether one instant is earlier than another.
    public static func < (left: Self, right: Self) -> Bool { left.nanoseconds < right.nanoseconds }

    /// The time until this instant, in nanoseconds for the kernel's waits: 0 when it has passed, negative for ever.
    package var timeout: Int64 {
        guard self != .distantFuture else { return -1 }
        let now = crl_now()
        return nanoseconds <= now ? 0 : Int64(clamping: nanoseconds - now)
    }
}
