/// What is compared of two that send messages, raw libzmq and ours, and what it should be.
enum Measure {
    case rate
    case roundTrip

    var name: String { self == .rate ? "messages/s one way" : "round trip in µs" }

    func row(_ medians: [Double]) -> [String] {
        let digits = self == .rate ? 0 : 1
        return medians.map { formatted($0, digits: digits) } + [formatted(medians[1] / medians[0], digits: 2)]
    }

    /// The ratio against the aim, and against the budget that the design must be able to meet.
    func verdict(_ medians: [Double]) -> [String] {
        let ratio = medians[1] / medians[0]
        let (aim, budget): (Limit, Limit) =
            self == .rate ? (.atLeast(0.5), .atLeast(0.9)) : (.atMost(1.5), .atMost(1.1))
        return [formatted(ratio, digits: 2), "aim \(aim.verdict(ratio))", "budget \(budget.verdict(ratio))"]
    }
}
