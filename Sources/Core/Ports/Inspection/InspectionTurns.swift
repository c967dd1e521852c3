import DequeModule
import RunLoopLocks
import RunLoops

/// The work that questions cost the housekeeping thread, in short turns. Between two turns, the thread serves everybody
/// else. A process that asks about thousands of ports would keep it otherwise.
final class InspectionTurns: Sendable {
    private struct State {
        var pieces = Deque<@Sendable () -> Void>()
        var hasTurn = false
        var isClosed = false
    }

    private let housekeeping: Housekeeping
    private let state = Lock(State())

    /// The length of a turn. The last piece of work may exceed it.
    static let length = Duration.milliseconds(2)

    init(_ housekeeping: Housekeeping) { self.housekeeping = housekeeping }

    /// Adds a piece of work: the answer to a question. The bounds on open questions bound their number.
    func add(_ work: @escaping @Sendable () -> Void) {
        let isFirst = state.withLock { state in
            guard !state.isClosed else { return false }
            state.pieces.append(work)
            return !exchange(&state.hasTurn, with: true)
        }
        if isFirst { beginSoon() }
    }

    private func beginSoon() { try? housekeeping.perform { self.run() } }

    private func run() {
        let end = MonotonicInstant.now + Self.length
        while let work = next() {
            work()
            if end.hasPassed { return beginSoon() }
        }
    }

    private func next() -> (@Sendable () -> Void)? {
        state.withLock { state in
            state.hasTurn = !state.pieces.isEmpty
            return state.pieces.popFirst()
        }
    }

    /// Drops the work that is left.
    func close() {
        let left = state.withLock { state in
            state.isClosed = true
            return exchange(&state.pieces, with: [])
        }
        withExtendedLifetime(left) {}
    }
}
