/// A set of modes, by their numbers in the loop's ``BlockQueue``.
struct ModeSet {
    private var bits: UInt64 = 0
    /// Numbers from 64 on, in a loop with very many modes.
    private var others: [Int]?

    init(_ numbers: Int...) {
        for number in numbers { insert(number) }
    }

    static let `default` = ModeSet(0)
    static let common = ModeSet(1)

    static var all: ModeSet {
        var all = ModeSet()
        all.bits = .max
        return all
    }

    mutating func insert(_ number: Int) {
        if number < UInt64.bitWidth {
            bits |= 1 << UInt64(number)
        } else {
            others = (others ?? []) + [number]
        }
    }

    /// Removes the modes that are not in the other set, and numbers from 64 on.
    mutating func formCommonPart(with set: ModeSet) { bits &= set.bits }

    func isDisjoint(with set: ModeSet) -> Bool {
        guard bits & set.bits == 0 else { return false }
        guard let others, let theirs = set.others else { return true }
        return !others.contains(where: theirs.contains)
    }
}
