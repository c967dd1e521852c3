/// The median of what each contender measures. They take turns, so that what else the machine does hits all of them;
/// the first round only warms up.
func medians(rounds: Int, _ contenders: [() throws -> Double]) throws -> [Double] {
    var values = [[Double]](repeating: [], count: contenders.count)
    for round in 0...rounds {
        for (index, measure) in contenders.enumerated() {
            let value = try measure()
            if round > 0 { values[index].append(value) }
        }
    }
    return values.map(median)
}

func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    let middle = sorted.count / 2
    return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}
