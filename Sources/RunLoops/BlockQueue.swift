import Synchronization

/// The blocks that wait for a pass of a loop, in the order they came.
///
/// It has a lock of its own: many threads queue blocks while the loop takes its other lock over and over.
final class BlockQueue: Sendable {
    struct Block {
        enum Modes {
            // Most blocks are for one; an array would be one more reference to count.
            case one(ThreadRunLoop.Mode)
            case several([ThreadRunLoop.Mode])
        }

        enum Work {
            case closure(@Sendable () -> Void)
            case job(UnownedJob)
        }

        let modes: Modes
        let work: Work

        init(_ modes: [ThreadRunLoop.Mode], _ work: Work) {
            self.modes = modes.count == 1 ? .one(modes[0]) : .several(modes)
            self.work = work
        }

        var allModes: [ThreadRunLoop.Mode] {
            switch modes {
            case .one(let mode): [mode]
            case .several(let modes): modes
            }
        }

        /// Whether a pass in the mode performs it.
        func isFor(_ mode: ThreadRunLoop.Mode, isCommon: Bool) -> Bool {
            switch modes {
            case .one(let own): own == mode || (isCommon && own == .common)
            case .several(let modes): modes.contains(mode) || (isCommon && modes.contains(.common))
            }
        }
    }

    /// What became of a block.
    enum Outcome {
        case queued
        /// It is the first since the loop has looked: its thread has to wake the loop.
        case queuedFirst
        /// The loop has not heard of one of the block's modes.
        case modeUnknown
        case loopEnded
    }

    private struct State {
        var blocks: [Block] = []
        /// The storage of those that were performed last, to be used again.
        var spare: [Block] = []
        var knownModes: [ThreadRunLoop.Mode] = [.default, .common]
        /// Whether somebody wakes the loop, or has, since it has looked last.
        var isWakeUpDue = false
        var isClosed = false
    }

    private let state = Mutex(State())
    private let mayHaveSome = Atomic(false)

    /// More than a burst of so many is given back to the system.
    private static let keptCapacity = 4096

    /// Takes a block in. `wakes` says that the caller would wake the loop for it.
    func append(_ block: Block, wakes: Bool) -> Outcome {
        state.withLock { state in
            if state.isClosed { return .loopEnded }
            switch block.modes {
            case .one(let mode): if !state.knownModes.contains(mode) { return .modeUnknown }
            case .several(let modes): if !modes.allSatisfy(state.knownModes.contains) { return .modeUnknown }
            }
            state.blocks.append(block)
            mayHaveSome.store(true, ordering: .releasing)
            guard wakes, !state.isWakeUpDue else { return .queued }
            state.isWakeUpDue = true
            return .queuedFirst
        }
    }

    func learn(_ modes: [ThreadRunLoop.Mode]) {
        state.withLock { state in
            for mode in modes where !state.knownModes.contains(mode) { state.knownModes.append(mode) }
        }
    }

    /// Takes those out that a pass in the mode performs, the last first.
    func takeDue(in mode: ThreadRunLoop.Mode, isCommon: Bool) -> [Block] {
        guard mayHaveSome.load(ordering: .acquiring) else { return [] }
        var due = state.withLock { state in
            state.isWakeUpDue = false
            var due: [Block] = []
            swap(&due, &state.spare)
            swap(&due, &state.blocks)
            if !due.allSatisfy({ $0.isFor(mode, isCommon: isCommon) }) {
                // Back at once, unlike CFRunLoop's: a run of their mode inside one of these must not miss them.
                state.blocks = due.filter { !$0.isFor(mode, isCommon: isCommon) }
                due.removeAll { !$0.isFor(mode, isCommon: isCommon) }
            }
            mayHaveSome.store(!state.blocks.isEmpty, ordering: .releasing)
            return due
        }
        due.reverse()
        return due
    }

    /// Takes the storage of performed blocks back.
    func reuse(_ storage: consuming [Block]) {
        guard storage.capacity <= Self.keptCapacity else { return }
        state.withLock { state in swap(&state.spare, &storage) }
    }

    func hasDue(in mode: ThreadRunLoop.Mode, isCommon: Bool) -> Bool {
        mayHaveSome.load(ordering: .acquiring)
            && state.withLock { $0.blocks.contains { $0.isFor(mode, isCommon: isCommon) } }
    }

    /// The modes of each, for a dump.
    var modes: [[ThreadRunLoop.Mode]] { state.withLock { $0.blocks.map(\.allModes) } }

    /// Takes no more, and gives out what it has.
    func close() -> [Block] {
        state.withLock { state in
            state.isClosed = true
            defer { state.blocks = [] }
            return state.blocks
        }
    }
}
