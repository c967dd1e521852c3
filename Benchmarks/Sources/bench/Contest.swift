/// One row of the benchmark: a work, and those that do it.
struct Row: Sendable {
    let part: String
    let work: String
    var placement: Placement?
    var payload: Int?
    var variant: String?
    /// Makes what the row needs, when the row's turn has come.
    let contest: @Sendable () throws -> Contest

    /// What `--only` looks in.
    var name: String {
        [part, work, placement?.name, variant, payload.map(byteCount)].compactMap(\.self).joined(separator: ", ")
    }

    /// On a thread of its own: loops, and all that is in them, end with it.
    func figures(rounds: Int) throws -> [Figure] { try PlainThread.run { try measured(rounds: rounds) } }

    private func measured(rounds: Int) throws -> [Figure] {
        let contest = try contest()
        let values = try contest.values(rounds: rounds)
        return contest.quantities.enumerated().map { index, quantity in
            Figure(
                part: part, work: work + quantity.suffix, unit: quantity.unit, placement: placement?.name,
                payload: payload, variant: variant,
                series: zip(contest.contestants, values).map { contestant, values in
                    Series(
                        name: contestant.name, values: values[index],
                        limits: index < contestant.limits.count ? contestant.limits[index] : [])
                })
        }
    }
}

/// Ours and others that do the same work.
struct Contest {
    /// What each measurement yields, and after that what all together say.
    let quantities: [Quantity]
    let contestants: [Contestant]
    /// Otherwise one measurement says all, and more would only take time.
    var isRepeated = true

    /// The values of each contestant and quantity. The contestants take turns, so that what else the machine does hits
    /// all of them; the first round only warms up.
    fileprivate func values(rounds: Int) throws -> [[[Double]]] {
        var measured = [[[Double?]]](repeating: [], count: contestants.count)
        for round in isRepeated ? 0...rounds : 1...1 {
            for (index, contestant) in contestants.enumerated() {
                let values = try contestant.measure()
                if round > 0 { measured[index].append(values) }
            }
        }
        return zip(contestants, measured).map { contestant, rounds in
            let summary = contestant.summary?() ?? []
            return quantities.indices.map { quantity in
                let perRound = quantities.count - summary.count
                if quantity >= perRound { return [summary[quantity - perRound]].compactMap(\.self) }
                return rounds.compactMap { $0[quantity] }
            }
        }
    }
}

extension Contest {
    /// One quantity.
    init(_ unit: Unit, ours: @escaping () throws -> Double, _ rivals: Contestant...) {
        self.init(unit, ours: ours, rivals: rivals)
    }

    /// One quantity.
    init(_ unit: Unit, ours: @escaping () throws -> Double, rivals: [Contestant]) {
        self.init(
            quantities: [Quantity(unit)], contestants: [Contestant("ours", measure: ours)] + rivals)
    }
}

struct Quantity {
    let unit: Unit
    /// What follows the work's name, such as " p99".
    var suffix = ""

    init(_ unit: Unit, suffix: String = "") {
        self.unit = unit
        self.suffix = suffix
    }
}

/// Ours, or one that ours is compared with.
struct Contestant {
    let name: String
    /// What the ratio of ours to this one has to keep to, for each quantity.
    var limits: [[Limit]] = []
    /// A value for each quantity; nil where there is none.
    let measure: () throws -> [Double?]
    /// What all rounds together say, as tails do, for the last of the quantities.
    var summary: (() -> [Double?])?

    init(_ name: String, limits: [[Limit]] = [], values measure: @escaping () throws -> [Double?]) {
        self.name = name
        self.limits = limits
        self.measure = measure
    }

    init(_ name: String, limits: [[Limit]], _ measurement: Measurement) {
        self.init(name, limits: limits, values: measurement.measure)
        summary = measurement.summary
    }

    init(_ name: String, _ limits: Limit..., measure: @escaping () throws -> Double) {
        self.init(name, limits: [limits]) { [try measure()] }
    }
}

/// What a contender does in each round, and what all rounds together say.
struct Measurement {
    let measure: () throws -> [Double?]
    var summary: (() -> [Double?])?
}
