/// What a ratio has to keep to.
enum Limit: Sendable {
    case atMost(Double)
    case atLeast(Double)

    /// The limit in words, and whether it is kept.
    func verdict(_ ratio: Double) -> String {
        let (sign, bound, isMet) =
            switch self {
            case .atMost(let bound): ("≤", bound, ratio <= bound)
            case .atLeast(let bound): ("≥", bound, ratio >= bound)
            }
        let text = bound == bound.rounded() ? String(Int(bound)) : String(bound)
        return "\(sign) \(text) \(isMet ? "met" : "MISSED")"
    }
}
