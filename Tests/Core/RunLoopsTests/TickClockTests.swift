import Testing

@testable import RunLoops

@Suite struct TickClockTests {
    private func moment(_ ticks: UInt64, _ nanoseconds: UInt64) -> TickClock.Moment {
        TickClock.Moment(ticks: ticks, time: MonotonicInstant(nanoseconds: nanoseconds))
    }

    @Test func `ticks between two moments become times in proportion`() {
        let (first, last) = (moment(1000, 500_000), moment(4000, 501_000))
        for (ticks, nanoseconds) in [(1000, 500_000), (2500, 500_500), (3997, 500_999), (4000, 501_000)]
            as [(UInt64, UInt64)]
        {
            #expect(TickClock.time(ticks, between: first, and: last).nanoseconds == nanoseconds)
        }
    }

    @Test func `ticks outside of the two moments become the nearer one`() {
        let (first, last) = (moment(1000, 500_000), moment(4000, 501_000))
        #expect(TickClock.time(999, between: first, and: last) == first.time)
        #expect(TickClock.time(.max, between: first, and: last) == last.time)
        // A counter that was set back tells nothing.
        #expect(TickClock.time(3000, between: last, and: first) == last.time)
    }

    @Test func `a year of ticks does not overflow`() {
        let year: UInt64 = 365 * 86_400 * 1_000_000_000
        let (first, last) = (moment(0, 0), moment(5 * year, year))
        #expect(TickClock.time(5 * (year / 2), between: first, and: last).nanoseconds == year / 2)
    }

    @Test func `a moment of the clock lies between the reads of the other clock around it`() {
        let clock = TickClock()
        var last = clock.now()
        for _ in 0..<1000 {
            let before = MonotonicInstant.now
            let moment = clock.now()
            #expect(before <= moment.time)
            #expect(moment.time <= .now)
            #expect(last.ticks < moment.ticks)
            last = moment
        }
    }
}
