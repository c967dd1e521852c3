import RunLoops

/// The rings to a lent port, which its lender keeps until the port comes back.
struct LentRings {
    /// The most rings of a loan, because each takes a descriptor of the lender. The lender does not keep further ones, whose
    /// messages end with the borrower.
    static var most: Int { min(4096, Int(clamping: Descriptor.limit) / 4) }
    /// The time between looks for rings that are over, when there are too many.
    private static let lookPeriod = Duration.seconds(1)

    private(set) var all: [LentRing] = []
    private let most: Int
    /// The number of rings at which those that are over are looked for.
    private var countToLook = 64
    private var nextLook = MonotonicInstant.distantPast

    init(most: Int = Self.most) { self.most = most }

    /// - Returns: False when there are too many rings.
    mutating func add(_ ring: LentRing) -> Bool {
        if all.count >= min(countToLook, most), nextLook.hasPassed {
            all.removeAll(where: \.isOver)
            countToLook = max(64, 2 * all.count)
            if all.count >= most { nextLook = .now + Self.lookPeriod }
        }
        guard all.count < most else { return false }
        all.append(ring)
        return true
    }
}
