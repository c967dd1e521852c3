/// The signals that a sequence's tasks have not taken. One entry a signal, however often it came: so it is bounded.
struct SignalInbox: Sendable {
    /// In the order of their first arrivals.
    private var untaken: [(signal: Int32, count: UInt64)] = []

    mutating func put(_ signal: Int32, _ count: UInt64) {
        if let place = untaken.firstIndex(where: { $0.signal == signal }) {
            untaken[place].count += count
        } else if count > 0 {
            untaken.append((signal, count))
        }
    }

    mutating func take() -> Int32? {
        guard let first = untaken.first else { return nil }
        if first.count > 1 { untaken[0].count -= 1 } else { untaken.removeFirst() }
        return first.signal
    }
}
