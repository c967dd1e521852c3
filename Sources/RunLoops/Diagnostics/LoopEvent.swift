/// An event of a recording, in one word.
///
/// A callout's event has the word of the callout, with a mark at its end. Every other event has no kind of a callout,
/// but a code and two numbers.
struct LoopEvent: Equatable {
    enum Meaning: Equatable {
        /// A pass begins, in a mode of this index, in the run of this depth; the outermost run's is 1.
        case pass(mode: Int, depth: Int)
        /// A run has ended, and so many are left.
        case runEnds(left: Int)
        case sleeps
        /// The loop waits awake.
        case polls
        case wakes(LoopRecording.WakeUp?)
        case begins(Callout)
        /// With the number of blocks that were performed one after another; 0 for blocks that began before the recording.
        case ends(Callout, count: Int)
    }

    private enum Code: UInt64 { case pass = 1, runEnds, sleeps, polls, wakes }

    let bits: UInt64

    private static let endMark: UInt64 = 8
    private static let kindBits: UInt64 = 15

    init(bits: UInt64) { self.bits = bits }

    private init(_ code: Code, _ first: Int = 0, _ second: Int = 0) {
        bits = code.rawValue << 4 | UInt64(truncatingIfNeeded: first) << 32 | (UInt64(second) & 0xffffff) << 8
    }

    static func pass(mode: Int, depth: Int) -> Self { Self(.pass, mode, depth) }
    static func runEnds(left: Int) -> Self { Self(.runEnds, left) }
    static var sleeps: Self { Self(.sleeps) }
    static var polls: Self { Self(.polls) }
    static func wakes(_ reason: LoopRecording.WakeUp?) -> Self { Self(.wakes, reason.map(Self.number) ?? 0) }
    static func begins(_ callout: Callout) -> Self { Self(bits: UInt64(callout.bits)) }
    static func ends(_ callout: Callout) -> Self { Self(bits: UInt64(callout.bits) | endMark) }

    /// The end of blocks or jobs, which have no item.
    static func ends(_ kind: Callout.Kind, count: Int) -> Self {
        Self(bits: UInt64(kind.rawValue) | endMark | UInt64(count) << 4)
    }

    private var isCalloutEnd: Bool { bits & Self.endMark != 0 }
    private var isCallout: Bool { bits & Self.kindBits != 0 }
    private func has(_ code: Code) -> Bool { bits & 0xff == code.rawValue << 4 }

    /// Whether there is only a little work of the loop's between the events, and no system call.
    func follows(_ last: LoopEvent) -> Bool {
        if last.isCalloutEnd { return has(.pass) || has(.runEnds) }
        return last.has(.wakes) && isCallout
    }

    var meaning: Meaning? {
        if bits & Self.kindBits != 0 {
            guard isCalloutEnd else { return .begins(Callout(bits: UInt(bits))) }
            let callout = Callout(bits: UInt(bits & ~Self.endMark))
            switch callout.kind {
            case .block, .job: return .ends(Callout(callout.kind), count: Int(bits >> 4))
            default: return .ends(callout, count: 1)
            }
        }
        let (first, second) = (Int(bits >> 32), Int(bits >> 8 & 0xffffff))
        return switch Code(rawValue: bits >> 4 & 0xf) {
        case .pass: .pass(mode: first, depth: second)
        case .runEnds: .runEnds(left: first)
        case .sleeps: .sleeps
        case .polls: .polls
        case .wakes: .wakes(LoopRecording.WakeUp.allCases.first { Self.number($0) == first })
        case nil: nil
        }
    }

    private static func number(_ reason: LoopRecording.WakeUp) -> Int {
        switch reason {
        case .wakeUp: 1
        case .timer: 2
        case .source: 3
        case .mainQueue: 4
        case .guest: 5
        case .timeLimit: 6
        }
    }
}
