import DequeModule
import RunLoopLocks
import Synchronization

/// The blocks and jobs (of actors and tasks) that wait for a pass of a loop, in the order they came. The queue has a
/// lock of its own, because many threads queue blocks while the loop takes its state's lock often.
final class BlockQueue: Sendable {
    enum Work {
        case closure(@Sendable () -> Void)
        // With their executors, because Swift hops once more with the wrong executor.
        case actorJob(UnownedJob, UnownedSerialExecutor)
        case taskJob(UnownedJob, any TaskExecutor)

        var kind: Callout.Kind { if case .closure = self { .block } else { .task } }

        @inline(__always)
        func call() {
            switch self {
            case .closure(let body): body()
            case .actorJob(let job, let executor): job.runSynchronously(on: executor)
            case .taskJob(let job, let executor): job.runSynchronously(on: executor.asUnownedTaskExecutor())
            }
        }
    }

    /// Performs a job of a loop that has ended.
    typealias Orphan = @Sendable (Work, LoopCore) -> Void

    struct Block {
        let modes: ModeSet
        let work: Work
    }

    enum Outcome {
        case queued
        /// The first block since the loop last took blocks. The caller has to wake the loop.
        case queuedFirst
        case modeUnknown
        case loopEnded
    }

    private struct State {
        var blocks = Deque<Block>()
        /// The modes that all blocks share, so that a pass seldom checks each block.
        var sharedModes = ModeSet.all
        /// A mode's index is its number.
        var knownModes: [RunLoopMode] = [.default, .common]
        /// Whether a caller wakes the loop, or has woken it since it last took blocks.
        var isWakeUpDue = false
        var orphan: Orphan?
        var isClosed = false

        func modeSet(_ modes: [RunLoopMode]) -> ModeSet? {
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
    /// The storage of the blocks performed last. ``takeDue(in:)`` and ``reuse(_:count:)`` use it, on the loop's thread.
    private let spare = CacheLine(Deque<Block>())

    private static let keptCount = 4096

    /// Queues a block. With `wakes`, the caller wakes the loop after ``Outcome/queuedFirst``.
    func append(_ modes: [RunLoopMode], _ body: @escaping @Sendable () -> Void, wakes: Bool) -> Outcome {
        state.withLock { state in
            guard let set = state.modeSet(modes) else { return .modeUnknown }
            // Made here, so that it is moved into its place.
            return append(Block(modes: set, work: .closure(body)), &state, wakes: wakes)
        }
    }

    /// Queues a job. A loop that ends gives it to `orphan`.
    func append(_ job: Work, orphan: @escaping Orphan) -> Outcome {
        state.withLock { state in
            state.orphan = orphan
            return append(Block(modes: .common, work: job), &state, wakes: true)
        }
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

    func learn(_ mode: RunLoopMode) -> Int {
        state.withLock { state in
            if let number = state.knownModes.firstIndex(of: mode) { return number }
            state.knownModes.append(mode)
            return state.knownModes.count - 1
        }
    }

    var isEmpty: Bool { !hasSome.value.load(ordering: .acquiring) }

    /// Takes the blocks for any of a pass's modes out. Called on the loop's thread.
    func takeDue(in modes: ModeSet) -> Deque<Block> {
        var due = spare.exchange([])
        state.withLock { state in
            state.isWakeUpDue = false
            swap(&due, &state.blocks)
            let areAllDue = !state.sharedModes.isDisjoint(with: modes)
            state.sharedModes = .all
            if !areAllDue {
                // Put back at once, unlike CFRunLoop, because a run of their mode inside a due block must not miss them.
                state.blocks = due.filter { $0.modes.isDisjoint(with: modes) }
                due.removeAll { $0.modes.isDisjoint(with: modes) }
                for block in state.blocks { state.sharedModes.formCommonPart(with: block.modes) }
            }
            if state.blocks.isEmpty { hasSome.value.store(false, ordering: .releasing) }
        }
        return due
    }

    /// Keeps the storage of performed blocks. Called on the loop's thread.
    func reuse(_ storage: consuming Deque<Block>, count: Int) {
        if count <= Self.keptCount { _ = spare.exchange(storage) }
    }

    func hasDue(in modes: ModeSet) -> Bool {
        !isEmpty && state.withLock { $0.blocks.contains { !$0.modes.isDisjoint(with: modes) } }
    }

    func dueCount(in modes: ModeSet) -> Int {
        state.withLock { $0.blocks.count { !$0.modes.isDisjoint(with: modes) } }
    }

    func close() -> (Deque<Block>, Orphan?) {
        state.withLock { state in
            state.isClosed = true
            defer { state.blocks = [] }
            return (state.blocks, state.orphan)
        }
    }
}
