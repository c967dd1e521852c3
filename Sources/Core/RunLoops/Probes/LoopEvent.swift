/// The reason for the end of a loop's sleep.
public enum LoopWakeUp: String, Sendable, Hashable, Codable, CaseIterable {
    /// A call of the loop's `wakeUp()`, such as the one for a block, or a change by another thread.
    case wakeUp = "wake-up"
    /// A timer was due.
    case timer
    /// A descriptor was ready; its source's callout follows.
    case source
    /// libdispatch's main queue.
    case mainQueue = "main queue"
    /// The loop's guest has served a source of its own.
    case guest
    /// The run's time was over.
    case timeLimit = "time limit"
}

/// An event of a recording, in one word.
///
/// The event of a callout has the word of the callout, with a mark at its end. Every other event has a code and two
/// numbers.
struct LoopEvent: Equatable {
    enum Meaning: Equatable {
        /// A pass begins, in the mode of this index, in the run of this depth; the outermost run has depth 1.
        case pass(mode: Int, depth: Int)
        /// A run has ended. `left` runs are still open.
        case runEnds(left: Int)
        case sleeps
        /// The loop waits awake.
        case polls
        case wakes(LoopWakeUp?)
        case begins(Callout)
        /// `count` blocks were performed one after another; 0 for blocks that began before the recording.
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
    static func begins(_ callout: Callout) -> Self { Self(bits: UInt64(callout.bits)) }
    static func ends(_ callout: Callout) -> Self { Self(bits: UInt64(callout.bits) | endMark) }

    static func wakes(_ reason: LoopWakeUp?) -> Self {
        Self(.wakes, reason.flatMap(LoopWakeUp.allCases.firstIndex).map { $0 + 1 } ?? 0)
    }

    /// The end of blocks or jobs, which have no item.
    static func ends(_ kind: Callout.Kind, count: Int) -> Self {
        Self(bits: UInt64(Callout(kind).bits) | endMark | UInt64(count) << 4)
    }

    private var isCalloutEnd: Bool { bits & Self.endMark != 0 }
    private var isCallout: Bool { bits & Self.kindBits != 0 }
    private func has(_ code: Code) -> Bool { bits & 0xff == code.rawValue << 4 }

    /// Whether the loop does only a little work between the events, and no system call.
    func follows(_ last: LoopEvent) -> Bool {
        if last.isCalloutEnd { return has(.pass) || has(.runEnds) }
        return last.has(.wakes) && isCallout
    }

    var meaning: Meaning? {
        if isCallout {
            guard isCalloutEnd else { return .begins(Callout(bits: UInt(bits))) }
            let callout = Callout(bits: UInt(bits & ~Self.endMark))
            switch callout.kind {
            case .block?: return .ends(Callout(.block), count: Int(bits >> 4))
            case .task?: return .ends(Callout(.task), count: Int(bits >> 4))
            default: return .ends(callout, count: 1)
            }
        }
        let (first, second) = (Int(bits >> 32), Int(bits >> 8 & 0xffffff))
        return switch Code(rawValue: bits >> 4 & 0xf) {
        case .pass: .pass(mode: first, depth: second)
        case .runEnds: .runEnds(left: first)
        case .sleeps: .sleeps
        case .polls: .polls
        case .wakes: .wakes(first == 0 ? nil : LoopWakeUp.allCases[first - 1])
        case nil: nil
        }
    }
}
