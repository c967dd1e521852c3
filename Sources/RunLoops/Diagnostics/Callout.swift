/// The kind of a callout, and its item if there is one, in one word: a reader never sees parts of two callouts.
struct Callout: Equatable {
    enum Kind: UInt { case none, block, job, mainQueue, source0, source1, timer, observer }

    let bits: UInt

    // Objects are at least 16 bytes apart, which leaves four bits for the kind.
    private static let kindBits: UInt = 15

    init(bits: UInt) { self.bits = bits }

    init(_ kind: Kind, _ item: AnyObject? = nil) {
        let address = item.map { UInt(bitPattern: Unmanaged.passUnretained($0).toOpaque()) } ?? 0
        bits = address | kind.rawValue
    }

    var kind: Kind { Kind(rawValue: bits & Self.kindBits) ?? .none }
    /// The item's; nil without an item.
    var address: UInt? { bits & ~Self.kindBits == 0 ? nil : bits & ~Self.kindBits }
    func isOf(_ id: ObjectIdentifier) -> Bool { address == UInt(bitPattern: id) }
}
