import RunLoops

/// The lanes to a lent port, which its lender keeps until the port comes back.
struct LentLanes {
    /// The most lanes of a loan, because each takes a descriptor of the lender. The lender does not keep further ones, whose
    /// messages end with the borrower.
    static var most: Int { min(4096, Int(clamping: Descriptor.limit) / 4) }
    /// The time between looks for lanes that are over, when there are too many.
    private static let lookPeriod = Duration.seconds(1)

    private(set) var all: [LentLane] = []
    private let most: Int
    /// The number of lanes at which those that are over are looked for.
    private var countToLook = 64
    private var nextLook = MonotonicInstant.distantPast

    init(most: Int = Self.most) { self.most = most }

    /// - Returns: False when there are too many lanes.
    mutating func add(_ lane: LentLane) -> Bool {
        if all.count >= min(countToLook, most), nextLook.hasPassed {
            all.removeAll(where: \.isOver)
            countToLook = max(64, 2 * all.count)
            if all.count >= most { nextLook = .now + Self.lookPeriod }
        }
        guard all.count < most else { return false }
        all.append(lane)
        return true
    }
}
