/// A row of the run loop's table.
struct LoopRow: Sendable {
    let name: String
    /// Measures, in so many rounds: the row's lines after its name.
    let lines: @Sendable (_ rounds: Int) throws -> [[String]]

    init(_ name: String, lines: @escaping @Sendable (_ rounds: Int) throws -> [[String]]) {
        self.name = name
        self.lines = lines
    }

    init(_ name: String, digits: Int = 0, _ contest: @escaping @Sendable () throws -> Contest) {
        self.init(name) { rounds in try contest().lines(rounds, digits: digits) }
    }
}

/// Ours and others that do the same work.
struct Contest {
    private let ours: () throws -> Double
    private let rivals: [Rival]

    init(ours: @escaping () throws -> Double, _ rivals: Rival...) {
        self.ours = ours
        self.rivals = rivals
    }

    func lines(_ rounds: Int, digits: Int) throws -> [[String]] {
        let medians = try medians(rounds: rounds, [ours] + rivals.map(\.measure))
        return zip(rivals, medians.dropFirst()).map { rival, theirs in
            Self.line(medians[0], rival.name, theirs, rival.limit, digits: digits)
        }
    }

    static func line(_ ours: Double, _ name: String, _ theirs: Double, _ limit: Limit? = nil, digits: Int = 0)
        -> [String]
    {
        let ratio = ours / theirs
        return [
            formatted(ours, digits: digits), name, formatted(theirs, digits: digits), formatted(ratio, digits: 2),
            limit?.verdict(ratio) ?? "",
        ]
    }
}

/// One that ours is compared with, and what the ratio has to keep to.
struct Rival {
    let name: String
    let limit: Limit?
    let measure: () throws -> Double

    init(_ name: String, _ limit: Limit? = nil, _ measure: @escaping () throws -> Double) {
        self.name = name
        self.limit = limit
        self.measure = measure
    }
}
