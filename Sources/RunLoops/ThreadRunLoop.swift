import CRunLoopShims
import RunLoopLocks
import Synchronization

/// A thread's run loop: it sleeps until one of its sources, timers or blocks has work, and calls them in CFRunLoop's
/// order. The corresponding CF type is `CFRunLoop`.
///
/// Each thread has one, made when it first asks for ``current``, as long as it lives. A run serves one mode's items:
///
///     let loop = ThreadRunLoop.current
///     try loop.add(ThreadRunLoop.Timer(after: .seconds(1), repeats: true) { _ in print("tick") })
///     try loop.run()
///
/// Any thread may add, remove, signal, wake, stop and perform; only the loop's own thread may run the loop. No item is
/// called with a lock held. Work for a loop whose thread has ended throws ``RunLoopError/loopEnded``; a stop or a wake-up
/// of such a loop, and a change of an item that was in it, do nothing, as there is nothing to do. After a fork the loops
/// are the parent's: in the child, calls that throw throw ``RunLoopError/forked``, and other calls do nothing and return
/// false or nil.
public final class ThreadRunLoop: Sendable {
    struct Run {
        let mode: Int
        var isStopped = false
        /// The wake state when the run began: asleep inside a sleep that another loop has the thread in; woken, also
        /// when a wake-up came while this run was the innermost one.
        private(set) var before: WakeState

        mutating func noteWakeUp() { if before == .awake { before = .woken } }

        init(mode: Int, before: WakeState) { (self.mode, self.before) = (mode, before) }
    }

    struct State {
        /// Modes are never removed, so an index names a mode for good.
        var modes = [ModeItems(.default, isCommon: true, number: 0)]
        var commonModes: [Mode] = [.default]
        var commonItems: [Item] = []
        /// The walks of items through the common modes that are in progress and not overtaken by another thread's.
        var commonWalks: [Int: (item: ObjectIdentifier, thread: Int32)] = [:]
        var lastCommonWalk = 0
        var runs: [Run] = []
        var isStoppedForGood = false
        var hasEnded = false
        var whenEnded: (@Sendable () -> Void)?
        var wake: EventDescriptor?
        var polling = Polling()
        var guest: Guest?
        var watches: [StallWatch] = []
        /// How many observations note the starts of passes.
        var observations = 0
        var tapes: [Tape] = []
    }

    /// The loop's place between two sleeps, for ``wakeUp()``.
    enum WakeState: UInt8, AtomicRepresentable {
        case awake
        case asleep
        /// A wake-up came: the loop must not sleep before another pass.
        case woken
    }

    let state = Lock(State())
    let wakeState = CacheLine(Atomic(WakeState.awake))
    /// Counts the changes that can end a source's turn: removals, invalidations, stops.
    let changes = Atomic(0)
    /// The source whose turn it is, and that a run inside its handler has to find raised. For the loop's thread.
    let unraised = CacheLine<Unmanaged<Source1>?>(nil)
    /// As ``pollingTime``, without its limit.
    package let pollingNanoseconds = Atomic<UInt64>(0)
    /// How many ``DrivenRun``s are open.
    let drivenRuns = Atomic(0)
    let hasGuest = Atomic(false)
    let servedGuestLast = Atomic(false)
    let blocks = BlockQueue()
    let drainsMainQueue = Atomic(false)
    let servedMainQueueLast = Atomic(false)
    let progress = Progress()
    let ownedRequests = OwnedRequests()
    let isMain: Bool
    let threadID: Int32

    private init(isMain: Bool) {
        crl_prepare_fork()
        self.isMain = isMain
        threadID = isMain ? crl_process_id() : crl_thread_id()
    }

    /// The loop of the main thread. Any thread may ask. The corresponding CF function is `CFRunLoopGetMain`.
    public static let main = ThreadRunLoop(isMain: true)

    /// The calling thread's loop. The corresponding CF function is `CFRunLoopGetCurrent`.
    @available(*, noasync, message: "a task may go on on another thread; ask a loop whether it isCurrent")
    public static var current: ThreadRunLoop {
        if let value = crl_thread_value() { return Unmanaged<ThreadRunLoop>.fromOpaque(value).takeUnretainedValue() }
        let loop = crl_thread_id() == crl_process_id() ? main : ThreadRunLoop(isMain: false)
        let kept = crl_thread_value_set(Unmanaged.passRetained(loop).toOpaque()) { value in
            // `current` is still this loop during the items' last callouts.
            _ = crl_thread_value_set(value, nil)
            ThreadRunLoop.endCurrent()
        }
        contract(kept, "the process has no thread-specific key left for its run loops")
        return loop
    }

    /// Whether the loop is the calling thread's.
    public var isCurrent: Bool {
        guard let value = crl_thread_value() else {
            // The main thread may use `main` and never have asked for `current`.
            return isMain && crl_thread_id() == threadID
        }
        return value == Unmanaged.passUnretained(self).toOpaque()
    }

    /// The innermost run's mode, if any. The corresponding CF function is `CFRunLoopCopyCurrentMode`.
    public var currentMode: Mode? {
        if crl_is_forked() { return nil }
        return state.withLock { state in state.runs.last.map { state.modes[$0.mode].mode } }
    }

    /// The default mode, and all that ever had items. The corresponding CF function is `CFRunLoopCopyAllModes`.
    public var allModes: [Mode] { crl_is_forked() ? [.default] : state.withLock { $0.modes.map(\.mode) } }

    /// Whether the loop sleeps until an event comes. The corresponding CF function is `CFRunLoopIsWaiting`.
    public var isWaiting: Bool { wakeState.value.load(ordering: .acquiring) == .asleep }

    /// When a mode's next timer is due, if any. The corresponding CF function is `CFRunLoopGetNextTimerFireDate`.
    public func nextTimerFireDate(forMode mode: Mode = .default) -> MonotonicInstant? {
        if crl_is_forked() { return nil }
        return state.withLock { state in state.index(of: mode).flatMap { state.modes[$0].timers.nextFireDate() } }
    }

    /// Makes the loop go through one more pass before it sleeps again. That pass sees everything done before the call.
    /// Any thread may call it. The corresponding CF function is `CFRunLoopWakeUp`.
    public func wakeUp() {
        if crl_is_forked() { return }
        if wakeState.value.exchange(.woken, ordering: .sequentiallyConsistent) == .asleep { endSleep() }
    }

    func endSleep() { state.withLock { $0.wake }?.raise() }

    /// Whether a change needs a wake-up: one by another thread does. The loop's own thread is awake and sees its changes
    /// without, unless another loop drives this one and has callouts of its own meanwhile.
    var isChangedFromOutside: Bool { isWaiting || !isCurrent }

    func wakeUpFromOutside() { if isChangedFromOutside { wakeUp() } }

    /// Wakes the calling thread's loop, if it sleeps: another loop drives it. For changes of which other threads do not
    /// wake a loop.
    static func wakeUpDriven(_ isConcerned: (ThreadRunLoop) -> Bool) {
        guard let value = crl_thread_value() else { return }
        let loop = Unmanaged<ThreadRunLoop>.fromOpaque(value)
        loop._withUnsafeGuaranteedRef { loop in
            if loop.isWaiting, isConcerned(loop) { loop.wakeUp() }
        }
    }

    /// Ends the innermost run, if there is one; to stop a run that may not have begun, `try loop.perform { loop.stop() }`.
    /// Any thread may call it. The corresponding CF function is `CFRunLoopStop`.
    public func stop() {
        stop { state in
            if !state.runs.isEmpty { state.runs[state.runs.count - 1].isStopped = true }
        }
    }

    /// Queues a block for the next pass in one of the modes; name at least one mode. Blocks run in the order they were
    /// queued, and do not count as handled sources. Any thread may call it; a call from another thread wakes the loop.
    /// The corresponding CF function is `CFRunLoopPerformBlock`, which leaves the wake-up to its caller.
    ///
    /// A block that changes a captured variable is no `@Sendable` one. For the calling thread's own loop, make one of it:
    ///
    ///     var count = 0
    ///     try ThreadRunLoop.current.perform(ThreadRunLoop.local { count += 1 })
    ///
    /// - Throws: ``RunLoopError/loopEnded`` when the loop's thread has ended, and `forked`: the block is not performed,
    ///   as are blocks that still wait when the thread ends.
    public func perform(
        inModes modes: [Mode] = Mode.onlyDefault, _ block: @escaping @Sendable () -> Void
    ) throws(RunLoopError) {
        if !queue(block, modes, wakes: isChangedFromOutside) { throw crl_is_forked() ? .forked : .loopEnded }
    }

    /// Queues a block, unless the thread has ended, or the process is a forked child. With `wakes`, a loop that sleeps
    /// wakes for it, and one that is awake performs it before a sleep.
    @discardableResult
    func queue(_ block: @escaping @Sendable () -> Void, _ modes: [Mode], wakes: Bool) -> Bool {
        contract(!modes.isEmpty, Self.noMode)
        if crl_is_forked() { return false }
        while true {
            switch blocks.append(modes, block, wakes: wakes) {
            case .loopEnded: return false
            case .queued: return true
            case .queuedFirst:
                wakeUp()
                return true
            case .modeUnknown:
                state.withLock { state in
                    for mode in modes where mode != .common { _ = state.madeIndex(of: mode, blocks) }
                }
            }
        }
    }

    static let noMode = "a closure for no mode would never be performed: name at least one mode"

    /// Makes a mode common, with all common items. The corresponding CF function is `CFRunLoopAddCommonMode`.
    /// - Throws: ``RunLoopError`` when the thread has ended, or no descriptor is left: then nothing has changed.
    public func addCommonMode(_ mode: Mode) throws(RunLoopError) {
        if crl_is_forked() { throw .forked }
        if hasEnded { throw .loopEnded }
        guard setCommon(mode, true) else { return }
        Self.wakeUpDriven { $0 === self }
        var joined: [Item] = []
        do throws(RunLoopError) {
            for item in state.withLock({ $0.commonItems }) where !contains(item, mode) {
                _ = try insert(item) { state in
                    // The item may have been removed meanwhile.
                    Walk(modes: state.commonItems.contains { $0.id == item.id } ? [mode] : [])
                }
                joined.append(item)
            }
        } catch {
            // All or nothing.
            _ = setCommon(mode, false)
            for item in joined { remove(item, mode) }
            throw error
        }
    }

    /// Whether the mode's membership has changed.
    private func setCommon(_ mode: Mode, _ isCommon: Bool) -> Bool {
        state.withLock { state in
            guard mode != .common, state.commonModes.contains(mode) != isCommon else { return false }
            if isCommon { state.commonModes.append(mode) } else { state.commonModes.removeAll { $0 == mode } }
            if let index = state.index(of: mode) {
                state.modes[index].flags.isCommon.store(isCommon, ordering: .releasing)
            }
            return true
        }
    }

    /// Adds a source; does nothing if the mode has the source. The corresponding CF function is `CFRunLoopAddSource`.
    /// - Returns: False when the source is not added: it is invalid.
    /// - Throws: ``RunLoopError/loopEnded`` when the thread has ended, and `forked`.
    @discardableResult
    public func add(_ source: Source0, forMode mode: Mode = .default) throws(RunLoopError) -> Bool {
        try insert(.source0(source), forMode: mode)
    }

    /// Adds a source; does nothing if the mode has the source. The corresponding CF function is `CFRunLoopAddSource`.
    /// - Returns: False when the source is not added: it is invalid.
    /// - Throws: ``RunLoopError`` when the descriptor cannot be waited for, none is left, or the thread has ended.
    @discardableResult
    public func add(_ source: Source1, forMode mode: Mode = .default) throws(RunLoopError) -> Bool {
        try insert(.source1(source), forMode: mode)
    }

    /// Adds a timer. The corresponding CF function is `CFRunLoopAddTimer`.
    /// - Returns: False when the timer is not added: it is invalid, or another loop's.
    /// - Throws: ``RunLoopError/loopEnded`` when the thread has ended, and `forked`.
    @discardableResult
    public func add(_ timer: Timer, forMode mode: Mode = .default) throws(RunLoopError) -> Bool {
        try insert(.timer(timer), forMode: mode)
    }

    /// Adds an observer. The corresponding CF function is `CFRunLoopAddObserver`.
    /// - Returns: False when the observer is not added: it is invalid, or another loop's.
    /// - Throws: ``RunLoopError/loopEnded`` when the thread has ended, and `forked`.
    @discardableResult
    public func add(_ observer: Observer, forMode mode: Mode = .default) throws(RunLoopError) -> Bool {
        try insert(.observer(observer), forMode: mode)
    }

    /// Removes a source from a mode. The corresponding CF function is `CFRunLoopRemoveSource`.
    public func remove(_ source: Source0, forMode mode: Mode = .default) { remove(.source0(source), mode) }

    /// Removes a source from a mode. The corresponding CF function is `CFRunLoopRemoveSource`.
    public func remove(_ source: Source1, forMode mode: Mode = .default) { remove(.source1(source), mode) }

    /// Removes a timer from a mode. The corresponding CF function is `CFRunLoopRemoveTimer`.
    public func remove(_ timer: Timer, forMode mode: Mode = .default) { remove(.timer(timer), mode) }

    /// Removes an observer from a mode. The corresponding CF function is `CFRunLoopRemoveObserver`.
    public func remove(_ observer: Observer, forMode mode: Mode = .default) { remove(.observer(observer), mode) }

    /// Whether a mode has the source. The corresponding CF function is `CFRunLoopContainsSource`.
    public func contains(_ source: Source0, forMode mode: Mode = .default) -> Bool { contains(.source0(source), mode) }

    /// Whether a mode has the source. The corresponding CF function is `CFRunLoopContainsSource`.
    public func contains(_ source: Source1, forMode mode: Mode = .default) -> Bool { contains(.source1(source), mode) }

    /// Whether a mode has the timer. The corresponding CF function is `CFRunLoopContainsTimer`.
    public func contains(_ timer: Timer, forMode mode: Mode = .default) -> Bool { contains(.timer(timer), mode) }

    /// Whether a mode has the observer. The corresponding CF function is `CFRunLoopContainsObserver`.
    public func contains(_ observer: Observer, forMode mode: Mode = .default) -> Bool {
        contains(.observer(observer), mode)
    }
}

extension ThreadRunLoop.State {
    func index(of mode: ThreadRunLoop.Mode) -> Int? {
        // By index: an element taken out would be a copy of all its items.
        modes.indices.first { modes[$0].mode == mode }
    }

    mutating func madeIndex(of mode: ThreadRunLoop.Mode, _ blocks: BlockQueue) -> Int {
        if let index = index(of: mode) { return index }
        modes.append(ModeItems(mode, isCommon: commonModes.contains(mode), number: blocks.learn(mode)))
        return modes.count - 1
    }
}

extension ThreadRunLoop {
    func stopForGood() {
        stop { state in
            state.isStoppedForGood = true
            for index in state.runs.indices { state.runs[index].isStopped = true }
        }
    }

    func stop(_ mark: (inout State) -> Void) {
        if crl_is_forked() { return }
        state.withLock { mark(&$0) }
        changes.add(1, ordering: .releasing)
        // A loop that is awake looks for the mark, under its lock, before it sleeps.
        if changeWakeState(from: .asleep, to: .woken) { endSleep() }
    }

    func changeWakeState(from expected: WakeState, to desired: WakeState) -> Bool {
        wakeState.value.compareExchange(expected: expected, desired: desired, ordering: .sequentiallyConsistent)
            .exchanged
    }

    var hasEnded: Bool { state.withLock { $0.hasEnded } }
    var isStoppedForGood: Bool { state.withLock { $0.isStoppedForGood } }

    static func endCurrent() {
        guard let value = crl_thread_value() else { return }
        let loop = Unmanaged<ThreadRunLoop>.fromOpaque(value)
        loop.takeUnretainedValue().end()
        _ = crl_thread_value_set(nil, nil)
        loop.release()
    }

    private func end() {
        if crl_is_forked() { return }
        // A handler may have ended the thread in a source's turn.
        _ = unraised.exchange(nil)
        // Released after the lock: the items may call back into the loop.
        let items = state.withLock { state in
            state.hasEnded = true
            return state.commonItems + state.modes.flatMap(\.items)
        }
        for item in items { removeEverywhere(item) }
        // From here on another thread does the work of actors. The callouts above still found them on this thread.
        for case .job(let job) in blocks.close().map(\.work) { orphan(job) }
        // A retained loop retains no descriptors. They are closed after the lock.
        let (wake, waitSets) = state.withLock { state in
            (state.wake.take(), state.modes.indices.map { state.modes[$0].waitSet.take() })
        }
        for waitSet in waitSets { waitSet?.close() }
        withExtendedLifetime(wake) {}
        passEnds(.runEnds(left: 0))
        _ = progress.tapes.exchange(TapeChain())
        let (whenEnded, guest) = state.withLock { state in
            // A handler may have ended the thread inside a run.
            state.runs = []
            return (state.whenEnded.take(), state.guest.take())
        }
        withExtendedLifetime(guest) { whenEnded?() }
    }
}
