import Histogram

/// The time of each round trip: from one answer to the next, where one question is under way.
final class TripClock: @unchecked Sendable {
    // Sound: only one thread asks, or the one before has ended.
    private var last = ContinuousClock.now
    private var trips: [UInt64] = []

    init(trips count: Int) { trips.reserveCapacity(count) }

    func start() { last = .now }

    func tick() {
        let now = ContinuousClock.now
        trips.append(UInt64(last.duration(to: now) / .nanoseconds(1)))
        last = now
    }

    func record(in trips: inout Histogram<UInt64>) {
        for trip in self.trips { trips.record(trip) }
    }
}

extension Histogram<UInt64> {
    /// The microseconds that this percentage of the trips keeps to; nil where too few are above.
    func microseconds(percentile: Double) -> Double? {
        guard Double(totalCount) * (1 - percentile / 100) >= (percentile > 50 ? 5 : 1) else { return nil }
        return Double(valueAtPercentile(percentile)) / 1000
    }
}
