import CRunLoopShims
import Synchronization

/// A point on the machine's monotonic clock, which stands still while the machine is suspended, as CFRunLoop's does. The
/// public calls take and return instants of Swift's `ContinuousClock`, which goes on. A conversion is exact at its time; a
/// later suspension of the machine puts the deadline off.
package struct MonotonicInstant: InstantProtocol, Sendable, Hashable {
    /// Nanoseconds since the clock's origin, some point before the process started.
    package let nanoseconds: UInt64

    package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    /// The moment of a deadline, nil for none, on this clock.
    package init(_ deadline: ContinuousClock.Instant?) {
        guard let deadline else { self = .distantFuture; return }
        self = Self.distantPast + (ContinuousClock().systemEpoch.duration(to: deadline) - Self.suspendedTime)
    }

    package static var now: MonotonicInstant { MonotonicInstant(nanoseconds: crl_now()) }

    /// A deadline that never comes.
    package static var distantFuture: MonotonicInstant { MonotonicInstant(nanoseconds: .max) }

    /// A deadline that has always passed.
    package static var distantPast: MonotonicInstant { MonotonicInstant(nanoseconds: 0) }

    /// This instant moved by a duration, at most to ``distantPast`` or ``distantFuture``.
    package func advanced(by duration: Duration) -> MonotonicInstant {
        guard self != .distantFuture else { return self }
        let moved = Int128(nanoseconds) + duration.attoseconds / 1_000_000_000
        return MonotonicInstant(nanoseconds: UInt64(clamping: moved))
    }

    package func duration(to other: MonotonicInstant) -> Duration {
        Duration(attoseconds: (Int128(other.nanoseconds) - Int128(nanoseconds)) * 1_000_000_000)
    }

    /// Whether the instant is now or in the past.
    package var hasPassed: Bool { nanoseconds <= crl_now() }

    package static func + (instant: Self, duration: Duration) -> Self { instant.advanced(by: duration) }
    package static func - (instant: Self, duration: Duration) -> Self { instant.advanced(by: .zero - duration) }
    package static func - (left: Self, right: Self) -> Duration { right.duration(to: left) }
    package static func < (left: Self, right: Self) -> Bool { left.nanoseconds < right.nanoseconds }

    /// The time until this instant, in nanoseconds for the kernel's waits: 0 when it has passed, negative for ever.
    package var timeout: Int64 {
        guard self != .distantFuture else { return -1 }
        let now = crl_now()
        return nanoseconds <= now ? 0 : Int64(clamping: nanoseconds - now)
    }

    /// The same moment on Swift's clock.
    package var continuous: ContinuousClock.Instant {
        switch self {
        case .distantPast: .distantPast
        case .distantFuture: .distantFuture
        default: ContinuousClock().systemEpoch + (MonotonicInstant.distantPast.duration(to: self) + Self.suspendedTime)
        }
    }

    /// The nanoseconds by which Swift's clock is ahead. The kernel adds each suspension to them.
    private static let keptLead = Atomic<Int64>(.min)

    /// The time for which the machine has been suspended. Two reads of clocks are some nanoseconds apart, and a thread
    /// may be interrupted between them. The value is therefore kept until the clocks differ by a millisecond more or
    /// less, so that an instant converted there and back is the same.
    private static var suspendedTime: Duration {
        let kept = keptLead.load(ordering: .relaxed)
        func measured() -> (lead: Int64, width: UInt64) {
            let before = crl_now()
            let now = ContinuousClock().systemEpoch.duration(to: .now).attoseconds / 1_000_000_000
            return (Int64(clamping: now - Int128(before)), crl_now() - before)
        }
        let first = measured()
        if kept != .min, (first.lead - kept).magnitude < 1_000_000 { return .nanoseconds(kept) }
        // On a busy machine all of the first few may be interrupted.
        var (best, count) = (first, 0)
        while count < 8 || count < 1000 && best.width >= 10_000 {
            let next = measured()
            if next.width <= best.width { best = next }
            count += 1
        }
        if kept != .min, (best.lead - kept).magnitude < 1_000_000 + best.width { return .nanoseconds(kept) }
        keptLead.store(best.lead, ordering: .relaxed)
        return .nanoseconds(best.lead)
    }
}

extension ContinuousClock.Instant {
    // Two thousand years before and after the start of the machine: beyond the range of `MonotonicInstant`.

    /// A deadline that never comes.
    package static var distantFuture: Self { ContinuousClock().systemEpoch + .seconds(63_000_000_000) }

    /// A deadline that has always passed.
    package static var distantPast: Self { ContinuousClock().systemEpoch - .seconds(63_000_000_000) }

    /// Whether the instant is now or in the past.
    package var hasPassed: Bool { self <= .now }

    /// The instant this many nanoseconds after the start of the machine.
    package init(nanoseconds: UInt64) { self = ContinuousClock().systemEpoch + .nanoseconds(nanoseconds) }

    /// The nanoseconds since the start of the machine.
    package var nanoseconds: UInt64 {
        UInt64(clamping: ContinuousClock().systemEpoch.duration(to: self).attoseconds / 1_000_000_000)
    }
}
