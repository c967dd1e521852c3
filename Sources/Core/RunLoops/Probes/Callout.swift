/// The kinds of callouts: the calls of code that the program has given to a loop.
public enum CalloutKind: String, Sendable, Hashable, Codable, CaseIterable {
    /// A block.
    case block
    /// A job of an actor on the loop, or of a task that prefers the loop.
    case task
    /// libdispatch's main queue, and the main actor's work on it.
    case mainQueue = "main queue"
    /// A `Source0` or `Source1`.
    case source
    /// A timer.
    case timer
    /// An observer.
    case observer
}

/// The kind of a callout, and its item if there is one, in one word, so that a reader never sees parts of two callouts.
struct Callout: Equatable {
    typealias Kind = CalloutKind

    let bits: UInt

    /// The loop is in no callout.
    static let none = Callout(bits: 0)
    // Objects are at least 16 bytes apart. Three bits of the rest are for the kind, and one for a `LoopEvent`.
    private static let kindBits: UInt = 15

    init(bits: UInt) { self.bits = bits }

    @inline(__always)
    init(_ kind: Kind, _ item: AnyObject? = nil) {
        let address = item.map { UInt(bitPattern: Unmanaged.passUnretained($0).toOpaque()) } ?? 0
        let code: UInt =
            switch kind {
            case .block: 1
            case .task: 2
            case .mainQueue: 3
            case .source: 4
            case .timer: 5
            case .observer: 6
            }
        bits = address | code
    }

    /// Nil for ``none``.
    var kind: Kind? {
        let code = Int(bits & Self.kindBits)
        return 1...Kind.allCases.count ~= code ? Kind.allCases[code - 1] : nil
    }

    /// The item's; nil without an item.
    var address: UInt? { bits & ~Self.kindBits == 0 ? nil : bits & ~Self.kindBits }
    func isOf(_ id: ObjectIdentifier) -> Bool { address == UInt(bitPattern: id) }
}
