import OwnThread
import RunLoops
import Testing

@Suite(.ownThread) struct MonotonicInstantTests {
    private let instant = MonotonicInstant(nanoseconds: 5_000_000_000)

    @Test func `it moves by a duration`() {
        #expect((instant + .milliseconds(1)).nanoseconds == 5_001_000_000)
        #expect((instant + .milliseconds(-1)).nanoseconds == 4_999_000_000)
        #expect((instant + .nanoseconds(-1)).nanoseconds == 4_999_999_999)
    }

    @Test func `it stops at the ends of time`() {
        #expect(instant + .seconds(-6) == .distantPast)
        #expect(instant + .seconds(Int64.min) == .distantPast)
        #expect(instant + .seconds(Int64.max) == .distantFuture)
        #expect(instant - .seconds(Int64.min) == .distantFuture)
        #expect(instant - (.seconds(Int64.max) + .seconds(Int64.max)) == .distantPast)
        #expect(MonotonicInstant(nanoseconds: .max - 1) + .seconds(1) == .distantFuture)
        #expect(MonotonicInstant.distantFuture + .seconds(-1) == .distantFuture)
    }

    @Test func `the distance of two instants has a sign`() {
        let later = instant + .seconds(2)
        #expect(instant.duration(to: later) == .seconds(2))
        #expect(later.duration(to: instant) == .seconds(-2))
    }

    @Test func `instants and durations are taken from each other`() {
        let (early, late) = (MonotonicInstant(nanoseconds: 1000), MonotonicInstant(nanoseconds: 1700))
        #expect(late - early == .nanoseconds(700))
        #expect(early - late == .nanoseconds(-700))
        #expect(late - .nanoseconds(700) == early)
        #expect(early - .seconds(1) == .distantPast)
    }

    @Test func `a timeout is nothing for the past and endless for the distant future`() {
        #expect(MonotonicInstant.distantPast.timeout == 0)
        #expect(MonotonicInstant.distantFuture.timeout == -1)
        #expect((MonotonicInstant.now + .seconds(100)).timeout > 50_000_000_000)
    }
}
