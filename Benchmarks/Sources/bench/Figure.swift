/// The measurements of one work: the values of all rounds, of ours and of its peers.
struct Figure: Codable, Sendable {
    /// The two ends, such as "two threads".
    let part: String
    let work: String
    let unit: Unit
    let placement: String?
    /// Bytes a message.
    let payload: Int?
    /// A further difference within a table, such as "4 senders".
    let variant: String?
    /// Ours first.
    let series: [Series]

    /// The heading of a table of figures that differ in payload or variant alone.
    var title: String {
        [part, work, placement].compactMap(\.self).joined(separator: ", ") + ", \(unit.name)"
    }

    var column: String? { variant ?? payload.map(byteCount) }

    var name: String { [title, column].compactMap(\.self).joined(separator: ", ") }
}

/// The values of one contender, round by round.
struct Series: Codable, Sendable {
    let name: String
    /// Empty where the contender cannot do the work, or too little was measured.
    let values: [Double]
    /// The limits of the ratio of ours to this one.
    var limits: [Limit] = []

    private enum CodingKeys: CodingKey { case name, values }

    var median: Double? {
        guard !values.isEmpty else { return nil }
        let sorted = values.sorted()
        let middle = sorted.count / 2
        return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
    }

    /// Half the distance from the first quartile to the third, as a part of the median.
    var spread: Double? {
        guard let median, median != 0, values.count > 3 else { return nil }
        let sorted = values.sorted()
        return (sorted[sorted.count * 3 / 4] - sorted[sorted.count / 4]) / 2 / median
    }
}

/// What a value counts.
struct Unit: Codable, Equatable, Sendable {
    let name: String
    let digits: Int
    /// Otherwise less is better.
    var isRate = false

    static let messagesASecond = Unit(name: "messages/s", digits: 0, isRate: true)
    static let blocksASecond = Unit(name: "blocks/s", digits: 0, isRate: true)
    static let milliseconds = Unit(name: "ms", digits: 2)
    static let microseconds = Unit(name: "µs", digits: 1)
    static let nanoseconds = Unit(name: "ns", digits: 0)
    static let bytes = Unit(name: "bytes", digits: 0)
    static let count = Unit(name: "count", digits: 0)
}

/// All figures of a run, and where they come from.
struct Report: Codable {
    var machine = Machine.description
    var date = Machine.date
    let rounds: Int
    var figures: [Figure] = []
}

func byteCount(_ bytes: Int) -> String {
    switch bytes {
    case (1 << 30)...: "\(bytes >> 30) GiB"
    case (1 << 20)...: "\(bytes >> 20) MiB"
    case (1 << 10)...: "\(bytes >> 10) KiB"
    default: "\(bytes) B"
    }
}
