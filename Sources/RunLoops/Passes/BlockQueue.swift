import DequeModule
import Synchronization

/// The blocks, and pieces of actors' and tasks' work, that wait for a pass of a loop, in the order they came.
///
/// It has a lock of its own: many threads queue blocks while the loop takes its other lock over and over. Nothing is
/// counted, compared by name or allocated for a block that need not be.
final class BlockQueue: Sendable {
    enum Work {
        case closure(@Sendable () -> Void)
        case job(ThreadRunLoop.Job)
    }

    struct Block {
        let modes: ModeSet
        let work: Work
    }

    /// What became of a block.
    enum Outcome {
        case queued
        /// It is the first since the loop has looked: its thread has to wake the loop.
        case queuedFirst
        /// The loop has not heard of one of the modes.
        case modeUnknown
        case loopEnded
    }

    private struct State {
        var blocks = Deque<Block>()
        /// The modes that all of them are for, so that most often none need be asked.
        var sharedModes = ModeSet.all
        /// A mode's place is its number.
        var knownModes: [ThreadRunLoop.Mode] = [.default, .common]
        /// Whether somebody wakes the loop, or has, since it has looked last.
        var isWakeUpDue = false
        var isClosed = false

        func modeSet(_ modes: [ThreadRunLoop.Mode]) -> ModeSet? {
            if modes.count == 1, modes[0] == .default { return .default }
            var set = ModeSet()
            for mode in modes {
                guard let number = knownModes.firstIndex(of: mode) else { return nil }
                set.insert(number)
            }
            return set
        }
    }

    private let state = Lock(State())
    private let hasSome = CacheLine(Atomic(false))
    /// The storage of those that were performed last, to be used again. Used on the loop's thread only, by
    /// ``takeDue(in:)`` and ``reuse(_:count:)``.
    private let spare = CacheLine(Deque<Block>())

    /// More than a burst of so many is given back to the system.
    private static let keptCount = 4096

    /// Takes a block in. `wakes` says that the caller would wake the loop for it.
    func append(_ modes: [ThreadRunLoop.Mode], _ body: @escaping @Sendable () -> Void, wakes: Bool) -> Outcome {
        state.withLock { state in
            guard let set = state.modeSet(modes) else { return .modeUnknown }
            // Made here, where it is moved into its place.
            return append(Block(modes: set, work: .closure(body)), &state, wakes: wakes)
        }
    }

    /// Takes a piece of an actor's or a task's work in, for the common modes.
    func append(_ job: ThreadRunLoop.Job) -> Outcome {
        state.withLock { state in append(Block(modes: .common, work: .job(job)), &state, wakes: true) }
    }

    @inline(__always)
    private func append(_ block: consuming Block, _ state: inout State, wakes: Bool) -> Outcome {
        if state.isClosed { return .loopEnded }
        if state.blocks.isEmpty { hasSome.value.store(true, ordering: .releasing) }
        state.sharedModes.formCommonPart(with: block.modes)
        state.blocks.append(block)
        guard wakes, !state.isWakeUpDue else { return .queued }
        state.isWakeUpDue = true
        return .queuedFirst
    }

    /// The number of a mode, known from now on.
    func learn(_ mode: ThreadRunLoop.Mode) -> Int {
        state.withLock { state in
            if let number = state.knownModes.firstIndex(of: mode) { return number }
            state.knownModes.append(mode)
            return state.knownModes.count - 1
        }
    }

    /// Whether there are none, in any mode.
    var isEmpty: Bool { !hasSome.value.load(ordering: .acquiring) }

    /// Takes those out that are for any of a pass's modes. Called on the loop's thread.
    func takeDue(in modes: ModeSet) -> Deque<Block> {
        var due = spare.exchange([])
        state.withLock { state in
            state.isWakeUpDue = false
            swap(&due, &state.blocks)
            let areAllDue = !state.sharedModes.isDisjoint(with: modes)
            state.sharedModes = .all
            if !areAllDue {
                // Back at once, unlike CFRunLoop's: a run of their mode inside one of these must not miss them.
                state.blocks = due.filter { $0.modes.isDisjoint(with: modes) }
                due.removeAll { $0.modes.isDisjoint(with: modes) }
                for block in state.blocks { state.sharedModes.formCommonPart(with: block.modes) }
            }
            if state.blocks.isEmpty { hasSome.value.store(false, ordering: .releasing) }
        }
        return due
    }

    /// Takes the storage of performed blocks back. Called on the loop's thread.
    func reuse(_ storage: consuming Deque<Block>, count: Int) {
        if count <= Self.keptCount { _ = spare.exchange(storage) }
    }

    func hasDue(in modes: ModeSet) -> Bool {
        !isEmpty && state.withLock { $0.blocks.contains { !$0.modes.isDisjoint(with: modes) } }
    }

    /// How many a pass in these modes would perform.
    func dueCount(in modes: ModeSet) -> Int {
        state.withLock { $0.blocks.count { !$0.modes.isDisjoint(with: modes) } }
    }

    /// Takes no more, and gives out what it has.
    func close() -> Deque<Block> {
        state.withLock { state in
            state.isClosed = true
            defer { state.blocks = [] }
            return state.blocks
        }
    }
}
