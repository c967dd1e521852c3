import CRunLoopShims

/// A quick clock for the events of a recording: the processor's counter, where the kernel trusts it. The ticks become
/// times when the recording is read.
struct TickClock {
    /// A moment on this clock and on the other one.
    struct Moment {
        let ticks: UInt64
        let time: MonotonicInstant
    }

    private static let isSteady = crl_has_steady_ticks()
    private let isSteady = Self.isSteady

    @inline(__always)
    func ticks() -> UInt64 { isSteady ? crl_ticks() : crl_now() }

    func now() -> Moment {
        // The thread may be interrupted between two reads, so the closest ones count.
        let reads = (0..<4).map { _ in (before: ticks(), time: MonotonicInstant.now, after: ticks()) }
        let closest = reads.min { $0.after &- $0.before < $1.after &- $1.before } ?? reads[0]
        return Moment(ticks: closest.before &+ (closest.after &- closest.before) / 2, time: closest.time)
    }

    /// The time of a count of ticks between two moments.
    static func time(_ ticks: UInt64, between first: Moment, and last: Moment) -> MonotonicInstant {
        guard first.ticks < last.ticks, ticks > first.ticks else { return first.time }
        let (part, whole) = (Int128(ticks - first.ticks), Int128(last.ticks - first.ticks))
        let span = Int128(last.time.nanoseconds) - Int128(first.time.nanoseconds)
        let passed = UInt64(clamping: part * span / whole)
        return min(MonotonicInstant(nanoseconds: first.time.nanoseconds + passed), last.time)
    }
}
