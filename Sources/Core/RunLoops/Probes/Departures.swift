/// The labels of items that have left a loop during a recording. Another item may get the address of one.
struct Departures {
    private struct Departure {
        /// The number of events when the item left.
        let count: Int
        let label: String?
    }

    private var departures: [UInt: [Departure]] = [:]
    private var count = 0

    /// - Parameter limit: The number of kept events, and about the number of kept departures.
    mutating func note(_ item: Item, after events: Int, limit: Int) {
        let address = UInt(bitPattern: item.id)
        // An item that has left without an event since another left needs no label.
        if departures[address]?.last?.count == events { return }
        departures[address, default: []].append(Departure(count: events, label: item.recordedLabel))
        count += 1
        guard count > 2 * limit else { return }
        departures = departures.compactMapValues { list in
            let needed = list.filter { $0.count > events - limit }
            return needed.isEmpty ? nil : needed
        }
        count = departures.values.reduce(0) { $0 + $1.count }
        if count > limit { (departures, count) = ([:], 0) }
    }

    /// The label of the item that had an address at the event of this number; nil if no such item has left since.
    func label(at address: UInt, event number: Int) -> String?? {
        guard let list = departures[address] else { return nil }
        // The counts ascend. One address may have had thousands of items.
        var (first, end) = (0, list.count)
        while first < end {
            let middle = (first + end) / 2
            if list[middle].count > number { end = middle } else { first = middle + 1 }
        }
        return first < list.count ? .some(list[first].label) : nil
    }

    /// The label of the last item with an address that has left, because a loop may call an item that has just left.
    func lastLabel(at address: UInt) -> String? { departures[address]?.last?.label }
}

extension Item {
    var recordedLabel: String? {
        if let label { return label }
        if case .source1(let source) = self { return "descriptor \(source.descriptor)" }
        if case .timer(let timer) = self { return timer.interval.map { "every \($0)" } ?? "once" }
        return nil
    }
}
