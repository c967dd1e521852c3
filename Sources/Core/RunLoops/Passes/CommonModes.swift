/// The items of the common modes, in the order in which they have joined.
struct CommonModes {
    private var joined: [ObjectIdentifier: (number: Int, item: Item)] = [:]
    private var lastNumber = 0

    var all: [Item] { joined.values.sorted { $0.number < $1.number }.map(\.item) }

    func contains(_ item: Item) -> Bool { joined[item.id] != nil }

    mutating func insert(_ item: Item) {
        if contains(item) { return }
        lastNumber += 1
        joined[item.id] = (lastNumber, item)
    }

    /// - Returns: Whether the item was there.
    mutating func remove(_ item: Item) -> Bool { joined.removeValue(forKey: item.id) != nil }
}
