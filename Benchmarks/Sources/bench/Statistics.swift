/// What two contenders took, round for round.
struct Samples {
    private(set) var raw: [Double] = []
    private(set) var ours: [Double] = []

    /// Measures both in turn, so that what else the machine does hits both. The first round only warms up.
    init(rounds: Int, raw measureRaw: () throws -> Double, ours measureOurs: () throws -> Double) throws {
        for round in 0...rounds {
            let (first, second) = (try measureRaw(), try measureOurs())
            guard round > 0 else { continue }
            raw.append(first)
            ours.append(second)
        }
    }

    var medians: (raw: Double, ours: Double) { (median(raw), median(ours)) }
}

func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    let middle = sorted.count / 2
    return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}
