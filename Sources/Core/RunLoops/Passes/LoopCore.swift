import CRunLoopShims
import RunLoopLocks
import Synchronization

/// The part of a loop that its passes work on: the modes, the runs in progress and the blocks.
@_documentation(visibility: internal)
public class LoopCore: LoopThread, ItemLoop, @unchecked Sendable {
    final let state = Lock(LoopState())
    final let servedGuestLast = Atomic(false)
    final let blocks = BlockQueue()
    final let drainsMainQueue = Atomic(false)
    final let servedMainQueueLast = Atomic(false)
    final let progress = Progress()
}

extension LoopCore {
    var hasEnded: Bool { state.withLock { $0.hasEnded } }
    var isStoppedForGood: Bool { state.withLock { $0.isStoppedForGood } }

    /// Stops the open run of a depth.
    func stopRun(depth: Int) {
        if crl_is_forked() { return }
        state.withLock { stopRuns(depth - 1..<depth, &$0) }
        noteStop()
    }

    func stopForGood() {
        if crl_is_forked() { return }
        state.withLock { state in
            state.isStoppedForGood = true
            stopRuns(state.runs.indices, &state)
        }
        noteStop()
    }

    private func stopRuns(_ indices: Range<Int>, _ state: inout LoopState) {
        for index in indices { state.runs[index].isStopped = true }
        // No run begins or ends meanwhile, because that takes the lock.
        if indices.contains(state.runs.count - 1) { markInnermostStopped() }
    }

    /// Queues a block, unless the thread has ended, or the process is a forked child. With `wakes`, a loop that sleeps
    /// wakes for it, and a loop that is awake performs it before a sleep.
    @discardableResult
    func queue(_ block: @escaping @Sendable () -> Void, _ modes: [RunLoopMode], wakes: Bool) -> Bool {
        contract(!modes.isEmpty, Self.noMode)
        if crl_is_forked() { return false }
        while true {
            switch blocks.append(modes, block, wakes: wakes) {
            case .loopEnded: return false
            case .queued: return true
            case .queuedFirst:
                wake()
                return true
            case .modeUnknown:
                state.withLock { state in
                    for mode in modes where mode != .common { _ = state.madeIndex(of: mode, blocks) }
                }
            }
        }
    }

    static var noMode: String { "a closure for no mode would never be performed: name at least one mode" }

    /// Ends the calling thread's loop.
    static func endCurrent() {
        guard let value = crl_thread_value() else { return }
        let loop = Unmanaged<LoopCore>.fromOpaque(value)
        loop.takeUnretainedValue().end()
        _ = crl_thread_value_set(nil, nil)
        loop.release()
    }

    private func end() {
        if crl_is_forked() { return }
        // A handler may have ended the thread in a source's turn.
        _ = unraised.exchange(nil)
        // Released after the lock, because the items may call back into the loop.
        let items = state.withLock { state in
            state.hasEnded = true
            return state.commonItems.all + state.modes.flatMap(\.items)
        }
        for item in items { removeEverywhere(item) }
        // From here on another thread does the work of actors. The callouts above still found them on this thread.
        let (left, orphan) = blocks.close()
        for block in left where block.work.kind == .task { orphan?(block.work, self) }
        // A retained loop retains no descriptors. They are closed after the lock.
        let waitSets = state.withLock { state in state.modes.indices.map { state.modes[$0].waitSet.take() } }
        for waitSet in waitSets { waitSet?.close() }
        wakeEvent.close()
        passEnds(.runEnds(left: 0))
        _ = progress.tapes.exchange(TapeChain())
        let (whenEnded, guest) = state.withLock { state in
            // A handler may have ended the thread inside a run.
            state.runs = []
            innermostRun.store(.none, ordering: .releasing)
            return (state.whenEnded.take(), state.guest.take())
        }
        withExtendedLifetime(guest) { whenEnded?() }
    }
}

/// A run in progress.
struct OpenRun {
    let mode: Int
    /// Whether the run was stopped, while it is not the innermost. ``LoopThread/innermostRun`` says it of the innermost.
    var isStopped = false
    /// The wake state when the run began. It is asleep inside a sleep that another loop has the thread in. It becomes
    /// woken when a wake-up comes while this run is the innermost one.
    private(set) var formerState: LoopThread.WakeState

    var innermostRun: LoopThread.InnermostRun { isStopped ? .stopped : .goesOn }

    mutating func noteWakeUp() { if formerState == .awake { formerState = .woken } }

    init(mode: Int, formerState: LoopThread.WakeState) { (self.mode, self.formerState) = (mode, formerState) }
}

/// The modes, the runs and the observers of a loop, behind its lock.
struct LoopState {
    /// Modes are never removed, so an index names a mode for good.
    var modes = [ModeItems(.default, isCommon: true, number: 0)]
    var commonModes: [RunLoopMode] = [.default]
    var commonItems = CommonItems()
    /// The walks of items through the common modes that are in progress and not overtaken by another thread's.
    var commonWalks: [Int: (item: ObjectIdentifier, threadID: Int32)] = [:]
    var lastCommonWalk = 0
    var runs: [OpenRun] = []
    var isStoppedForGood = false
    var hasEnded = false
    var whenEnded: (@Sendable () -> Void)?
    var polling = Polling()
    var guest: GuestSleep?
    var watches: [any PassWatch] = []
    /// The number of observations that note the starts of passes.
    var observations = 0
    var tapes: [Tape] = []

    /// Whether a monitor or an observation needs the starts of the loop's passes.
    var isWatched: Bool { observations > 0 || !watches.isEmpty }

    func index(of mode: RunLoopMode) -> Int? {
        // By index, because an element taken out would be a copy of all its items.
        modes.indices.first { modes[$0].mode == mode }
    }

    mutating func madeIndex(of mode: RunLoopMode, _ blocks: BlockQueue) -> Int {
        if let index = index(of: mode) { return index }
        modes.append(ModeItems(mode, isCommon: commonModes.contains(mode), number: blocks.learn(mode)))
        return modes.count - 1
    }
}
