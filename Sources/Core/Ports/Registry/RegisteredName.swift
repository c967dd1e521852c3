/// A name of a port, in one of the directories.
struct RegisteredName: Hashable {
    let directory: RegistryDirectory
    let name: String
    /// False for an internal name of the library.
    var isService = true

    static func == (one: Self, other: Self) -> Bool { one.directory === other.directory && one.name == other.name }
    func hash(into hasher: inout Hasher) { hasher.combine(name) }
}

/// A set that knows which element was inserted last. No call reads all elements, because a port may have thousands of
/// names.
struct RecentSet<Element: Hashable> {
    private var numbers: [Element: Int] = [:]
    /// In the order of insertion, with elements that were removed since.
    private var history: [(element: Element, number: Int)] = []
    private var lastNumber = 0

    var elements: [Element] { history.filter(isHeld).map(\.element) }
    var last: Element? { history.last?.element }

    func contains(_ element: Element) -> Bool { numbers[element] != nil }

    /// Nothing happens when the set has the element.
    mutating func insert(_ element: Element) {
        guard numbers[element] == nil else { return }
        lastNumber += 1
        numbers[element] = lastNumber
        history.append((element, lastNumber))
    }

    mutating func remove(_ element: Element) {
        guard numbers.removeValue(forKey: element) != nil else { return }
        while let newest = history.last, !isHeld(newest) { history.removeLast() }
        // All elements are read only after as many removals.
        if history.count > 2 * numbers.count + 8 { history = history.filter(isHeld) }
    }

    private func isHeld(_ inserted: (element: Element, number: Int)) -> Bool {
        numbers[inserted.element] == inserted.number
    }
}
