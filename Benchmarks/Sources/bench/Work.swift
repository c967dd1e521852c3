import Histogram

/// What the contenders are made to do, and how much of it.
struct Work {
    /// How long a measurement takes, roughly.
    static let seconds = 0.03
    /// So that those that bound no queue do not take all memory.
    private static let byteLimit = 256 << 20

    let payload: [UInt8]
    let placement: Placement

    init(payload size: Int, _ placement: Placement) {
        payload = [UInt8](repeating: 7, count: size)
        self.placement = placement
    }

    /// Messages a second, and microseconds of CPU time a message.
    static let rate = [
        Quantity(.messagesASecond), Quantity(.microseconds, suffix: ", CPU time a message"),
    ]

    func rate(_ contender: some Contender) -> Measurement {
        rate(contender) { try contender.oneWay($0, payload: payload) }
    }

    func rate(_ contender: some Contender, from threads: SenderThreads) -> Measurement {
        rate(contender, multipleOf: threads.count) {
            try contender.oneWay($0, payload: payload, from: threads)
        }
    }

    func rate(_ contender: some Contender, inFlight: Int) -> Measurement {
        rate(contender, inFlight: inFlight) {
            try contender.roundTrips($0, inFlight: min(inFlight, $0), payload: payload, clock: nil)
        }
    }

    /// The bytes are not copied, so their number does not limit how many are under way.
    func rate(_ contender: some Contender, handingOver bytes: SharedBytes) -> Measurement {
        guard let giver = contender as? any HandingOver else {
            return Measurement { [Double?](repeating: nil, count: Self.rate.count) }
        }
        return rate(giver, atLeast: 4000, atMost: Self.byteLimit / 64) {
            try giver.oneWay($0, handingOver: bytes)
        }
    }

    private func rate(
        _ contender: some Contender, atLeast least: Int? = nil, atMost most: Int? = nil, multipleOf factor: Int = 1,
        inFlight: Int = .max,
        _ run: @escaping (_ messages: Int) throws -> Void
    ) -> Measurement {
        // Many times what the queues hold, where that is not too much.
        let amount = Amount(
            atLeast: least ?? min(4000, byteLimit / 8), atMost: most ?? byteLimit, multipleOf: factor)
        return bound(contender, inFlight: inFlight, quantities: Self.rate.count) {
            let messages = try amount.found(run)
            let cpu = contender.cpuSeconds
            let time = try bench.seconds { try run(messages) }
            return [Double(messages) / time, (contender.cpuSeconds - cpu) / Double(messages) * 1e6]
        }
    }

    /// The median round trip and the CPU time of one, round by round, and the tails of all rounds.
    static let roundTrip =
        [Quantity(.microseconds, suffix: " p50"), Quantity(.microseconds, suffix: ", CPU time")]
        + tails.map { Quantity(.microseconds, suffix: " p\($0 == 99 ? "99" : "99.9")") }
    private static let tails = [99, 99.9]

    func roundTrip(_ contender: some Contender) -> Measurement {
        let amount = Amount(atLeast: min(200, byteLimit / 8), atMost: byteLimit)
        let all = Trips()
        var measurement = bound(contender, inFlight: 1, quantities: Self.roundTrip.count) {
            let isWarmUp = !amount.isKnown
            let trips = try amount.found {
                try contender.roundTrips($0, inFlight: 1, payload: payload, clock: nil)
            }
            let clock = TripClock(trips: trips)
            let cpu = contender.cpuSeconds
            try contender.roundTrips(trips, inFlight: 1, payload: payload, clock: clock)
            let cpuTime = (contender.cpuSeconds - cpu) / Double(trips) * 1e6
            var round = Histogram<UInt64>(numberOfSignificantValueDigits: .three)
            clock.record(in: &round)
            if !isWarmUp { clock.record(in: &all.histogram) }
            return [round.microseconds(percentile: 50), cpuTime]
        }
        measurement.summary = { Self.tails.map(all.histogram.microseconds) }
        return measurement
    }

    /// Those of all rounds of one contender.
    private final class Trips {
        var histogram = Histogram<UInt64>(numberOfSignificantValueDigits: .three)
    }

    private var byteLimit: Int { Self.byteLimit / max(payload.count, 64) }

    /// Runs the work where it belongs, if the contender can do it.
    private func bound(
        _ contender: some Contender, inFlight: Int, quantities: Int, _ work: @escaping () throws -> [Double?]
    ) -> Measurement {
        guard contender.payloads.contains(payload.count), inFlight <= contender.inFlightLimit,
            contender.canBind || placement == .apart
        else {
            return Measurement { [Double?](repeating: nil, count: quantities) }
        }
        return Measurement {
            try contender.bind(placement)
            // What comes next, threads and children too, inherits where this thread may run.
            defer { Placement.free.bindNear() }
            return try work()
        }
    }
}

/// How many messages a measurement takes, found in the first one.
final class Amount {
    private let least: Int
    private let most: Int
    private let factor: Int
    private var amount: Int?

    init(atLeast least: Int, atMost most: Int, multipleOf factor: Int = 1) {
        self.least = least
        self.most = most
        self.factor = factor
    }

    var isKnown: Bool { amount != nil }

    func found(_ run: (Int) throws -> Void) throws -> Int {
        if let amount { return amount }
        var count = rounded(least)
        // The first one connects, and allocates.
        try run(count)
        var time = try fastest(count, run)
        while time < Work.seconds / 4, count < most {
            count = rounded(min(count * 4, most))
            time = try fastest(count, run)
        }
        let amount = rounded(min(max(least, Int(Double(count) * Work.seconds / time)), most))
        self.amount = amount
        return amount
    }

    /// Of three: somebody else may have had the CPU.
    private func fastest(_ count: Int, _ run: (Int) throws -> Void) throws -> Double {
        var fastest = Double.infinity
        for _ in 0..<3 { fastest = min(fastest, try seconds { try run(count) }) }
        return fastest
    }

    private func rounded(_ count: Int) -> Int { max(count / factor, 1) * factor }
}
