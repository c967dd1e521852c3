/// What is compared, and what it should be.
enum Measure {
    case rate
    case roundTrip

    func name(_ payload: String) -> String {
        switch self {
        case .rate: "\(payload), messages/s one way"
        case .roundTrip: "\(payload), round trip in µs"
        }
    }

    func row(_ payload: String, _ medians: (raw: Double, ours: Double)) -> [String] {
        let digits = self == .rate ? 0 : 1
        return [
            name(payload), formatted(medians.raw, digits: digits), formatted(medians.ours, digits: digits),
            formatted(medians.ours / medians.raw, digits: 2),
        ]
    }

    /// The ratio against the aim, and against the budget that the design must be able to meet.
    func verdict(_ medians: (raw: Double, ours: Double)) -> [String] {
        let ratio = medians.ours / medians.raw
        let (sign, aim, budget) = self == .rate ? ("≥", 0.5, 0.9) : ("≤", 1.5, 1.1)
        func line(_ name: String, _ limit: Double) -> String {
            let isMet = self == .rate ? ratio >= limit : ratio <= limit
            return "\(name) \(sign) \(formatted(limit, digits: 1)) \(isMet ? "met" : "MISSED")"
        }
        return [formatted(ratio, digits: 2), line("aim", aim), line("budget", budget)]
    }
}
