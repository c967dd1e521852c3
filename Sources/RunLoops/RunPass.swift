import CRunLoopShims
import Glibc

// How a loop runs: the order of one pass is CFRunLoop's, and the text of `run(_:_:)` is the order.

extension ThreadRunLoop {
    /// Runs the default mode until ``stop()``, or until it has no source, timer or block left.
    /// The corresponding CF function is `CFRunLoopRun`.
    ///
    /// Only the loop's own thread may call it.
    /// - Throws: ``RunLoopError`` when no descriptor is left to sleep on.
    @available(*, noasync, message: "a run blocks its thread")
    public func run() throws(RunLoopError) {
        while true {
            switch try run(.default, until: .distantFuture, returnAfterSourceHandled: false) {
            case .finished, .stopped: return
            case .timedOut, .handledSource: continue
            }
        }
    }

    /// Runs the default mode until a time, or until it has no source, timer or block left.
    /// The corresponding method is NSRunLoop's `runUntilDate:`.
    ///
    /// Only the loop's own thread may call it.
    /// - Throws: ``RunLoopError`` when no descriptor is left to sleep on.
    @available(*, noasync, message: "a run blocks its thread")
    public func run(until limit: MonotonicInstant) throws(RunLoopError) {
        while try run(mode: .default, before: limit), !limit.hasPassed {}
    }

    /// Runs a mode until one source was handled, or a time has come.
    /// The corresponding method is NSRunLoop's `runMode:beforeDate:`.
    ///
    /// Only the loop's own thread may call it.
    /// - Parameters:
    ///   - mode: The mode to run in.
    ///   - limit: When to return in any case. A time in the past makes one pass that does not sleep.
    /// - Returns: False when there was nothing to run: the mode has no source, timer or block.
    /// - Throws: ``RunLoopError`` when no descriptor is left to sleep on.
    @available(*, noasync, message: "a run blocks its thread")
    @discardableResult
    public func run(mode: Mode, before limit: MonotonicInstant) throws(RunLoopError) -> Bool {
        checkThread()
        let hasNothing = state.withLock { state in index(of: mode, &state).map { isEmpty(state, mode: $0) } ?? true }
        if hasNothing { return false }
        _ = try run(mode, until: limit.hasPassed ? .distantPast : limit, returnAfterSourceHandled: true)
        return true
    }

    /// Runs a mode for a while. The corresponding CF function is `CFRunLoopRunInMode`.
    ///
    /// Only the loop's own thread may call it.
    /// - Parameters:
    ///   - mode: The mode to run in.
    ///   - seconds: How long at most. Zero or less makes one pass that does not sleep.
    ///   - returnAfterSourceHandled: Whether to return when one source was handled.
    /// - Returns: Why it has returned.
    /// - Throws: ``RunLoopError`` when no descriptor is left to sleep on.
    @available(*, noasync, message: "a run blocks its thread")
    @discardableResult
    public func runInMode(
        _ mode: Mode = .default, seconds: Double, returnAfterSourceHandled: Bool = false
    ) throws(RunLoopError) -> RunResult {
        func limit() -> MonotonicInstant {
            guard seconds > 0 else { return .distantPast }
            return seconds > 1e9 ? .distantFuture : .now + .seconds(seconds)
        }
        return try run(mode, until: limit(), returnAfterSourceHandled: returnAfterSourceHandled)
    }

    // MARK: - One run

    private func run(
        _ mode: Mode, until limit: @autoclosure () -> MonotonicInstant, returnAfterSourceHandled: Bool
    ) throws(RunLoopError) -> RunResult {
        checkThread()
        guard let index = try begin(mode) else { return .finished }
        notify(.entry, index)
        // A time in seconds counts from here, as CFRunLoop's does.
        let result = run(index, until: limit(), returnAfterSourceHandled: returnAfterSourceHandled)
        notify(.exit, index)
        close()
        return result
    }

    private func run(_ mode: Int, until limit: MonotonicInstant, returnAfterSourceHandled: Bool) -> RunResult {
        if wasStopped() { return .stopped }
        // The main queue's turn comes first in every pass but the first, and the one after its last turn.
        var hasJustServedMainQueue = true
        while true {
            notify(.beforeTimers, mode)
            notify(.beforeSources, mode)
            performBlocks(mode)
            var handledSource = performSources0(mode, onlyFirst: returnAfterSourceHandled)
            if handledSource { performBlocks(mode) }

            let polls = handledSource || limit == .distantPast
            let event: Event
            if !hasJustServedMainQueue && mainQueueIsReady(mode) {
                event = .mainQueue
            } else {
                if !polls { notify(.beforeWaiting, mode) }
                event = sleep(mode, until: polls ? .distantPast : limit)
                if !polls { notify(.afterWaiting, mode) }
            }
            hasJustServedMainQueue = false

            switch event {
            case .none:
                break
            case .timers:
                fireTimers(mode)
            case .mainQueue:
                drainMainQueue()
                handledSource = true
                hasJustServedMainQueue = true
            case .source(let watched, let readiness):
                if perform(watched, readiness, mode, one: returnAfterSourceHandled) { handledSource = true }
            }
            performBlocks(mode)

            if handledSource && returnAfterSourceHandled { return .handledSource }
            if limit.hasPassed { return .timedOut }
            if wasStopped() { return .stopped }
            if state.withLock({ isEmpty($0, mode: mode) }) { return .finished }
            takeWakeUps()
        }
    }

    // MARK: - Its steps

    private enum Event {
        case none
        case timers
        case mainQueue
        case source(ModeItems.Watched, Readiness)
    }

    /// Opens a run of the mode, unless it has nothing to run.
    private func begin(_ mode: Mode) throws(RunLoopError) -> Int? {
        try state.withLock { state throws(RunLoopError) -> Int? in
            guard !state.isStoppedForGood, let index = index(of: mode, &state), !isEmpty(state, mode: index) else {
                return nil
            }
            try prepare(index, &state)
            state.runs.append(Run(mode: index, wasWoken: wakeUpsTaken()))
            return index
        }
    }

    private func close() {
        state.withLock { state in
            // The outer runs have not seen what a wake-up was for that came in this one.
            if let run = state.runs.popLast(), run.wasWoken, !state.runs.isEmpty {
                wakeState.store(.woken, ordering: .sequentiallyConsistent)
            }
        }
    }

    /// Has wake-ups from now on count for the next sleep: a new pass sees what the ones before were for.
    private func takeWakeUps() {
        if wakeUpsTaken() { state.withLock { $0.runs[$0.runs.count - 1].wasWoken = true } }
    }

    private func wakeUpsTaken() -> Bool { wakeState.exchange(.awake, ordering: .sequentiallyConsistent) == .woken }

    /// Makes what the mode needs to sleep.
    func prepare(_ mode: Int, _ state: inout State) throws(RunLoopError) {
        let wake = if let made = state.wake { made } else { try EventDescriptor() }
        state.wake = wake
        try state.modes[mode].prepareWaitSet(wake: wake)
    }

    private func checkThread() {
        precondition(isCurrent || Self.current === self, "a ThreadRunLoop can be run by its own thread only")
    }

    /// The mode, if it exists. The main queue alone makes a common mode of the main thread worth running.
    private func index(of mode: Mode, _ state: inout State) -> Int? {
        isMain && state.commonModes.contains(mode) ? state.madeIndex(of: mode) : state.index(of: mode)
    }

    private func isEmpty(_ state: borrowing State, mode: Int) -> Bool {
        guard !servesMainQueue(state, mode: mode), state.modes[mode].hasNoSourceOrTimer else { return false }
        return !state.blocks.contains { state.runs($0, in: mode) }
    }

    private func wasStopped() -> Bool {
        state.withLock { state in
            guard let run = state.runs.last, run.isStopped else { return false }
            state.runs[state.runs.count - 1].isStopped = false
            return true
        }
    }

    private func notify(_ activity: Activity, _ mode: Int) {
        let observers = state.withLock { state -> [Observer] in
            guard state.modes[mode].activities.contains(activity) else { return [] }
            return state.modes[mode].observers.filter { $0.activities.contains(activity) }
        }
        for observer in observers { observer.tell(activity) }
    }

    private func performBlocks(_ mode: Int) {
        let blocks = state.withLock { state -> [Block] in
            guard !state.blocks.isEmpty else { return [] }
            var due: [Block] = []
            swap(&due, &state.blocks)
            if !due.allSatisfy({ state.runs($0, in: mode) }) {
                // Back at once, unlike CFRunLoop's: a run of their mode inside one of these must not miss them.
                state.blocks = due.filter { !state.runs($0, in: mode) }
                due.removeAll { !state.runs($0, in: mode) }
            }
            return due
        }
        for block in blocks { block.body() }
    }

    private func performSources0(_ mode: Int, onlyFirst: Bool) -> Bool {
        let sources = state.withLock { state -> [Source0] in
            let flag = state.modes[mode].signals
            guard flag.isSet.exchange(false, ordering: .acquiringAndReleasing) else { return [] }
            let signaled = state.modes[mode].sources0.filter(\.isSignaled)
            // The first may run the loop, or end this run, before the others' turn.
            if signaled.count > 1 { flag.isSet.store(true, ordering: .releasing) }
            return signaled
        }
        var handled = false
        for source in sources where source.performIfSignaled() {
            handled = true
            if onlyFirst { break }
        }
        return handled
    }

    private func mainQueueIsReady(_ mode: Int) -> Bool {
        guard isMain, state.withLock({ servesMainQueue($0, mode: mode) }) else { return false }
        var main = pollfd(fd: crl_main_queue_descriptor(), events: Int16(POLLIN), revents: 0)
        return poll(&main, 1, 0) == 1
    }

    private func sleep(_ mode: Int, until limit: MonotonicInstant) -> Event {
        let (waitSet, turn, isPolling) = state.withLock { state -> (WaitSet?, ModeItems.Watched?, Bool) in
            let isRaised = state.modes[mode].hasRaised()
            // Raised sources and ready descriptors take turns. The kernel is not even asked in a turn of the former:
            // what it tells goes to the end of its queue, served or not.
            if let turn = state.modes[mode].raisedTurn() { return (nil, turn, true) }
            // Work made visible before a wake-up that came since the pass began must be seen before sleeping.
            let isPolling =
                isRaised || limit == .distantPast || state.runs.last?.isStopped == true
                || !wakeState.compareExchange(expected: .awake, desired: .asleep, ordering: .sequentiallyConsistent)
                    .exchanged
            state.modes[mode].armTimer()
            if isMain { state.modes[mode].watchMainQueue(servesMainQueue(state, mode: mode)) }
            return (state.modes[mode].waitSet, nil, isPolling)
        }
        if let turn { return .source(turn, []) }
        guard let waitSet else { return .none }
        var ready: WaitSet.Event?
        repeat {
            ready = waitSet.wait(until: isPolling ? .distantPast : limit)
            // An old wake-up's edge may be left in the set; one that counts has changed the state.
        } while ready?.token == ModeItems.wakeToken && (isPolling || wakeState.load(ordering: .acquiring) != .woken)
        if !isPolling {
            _ = wakeState.compareExchange(expected: .asleep, desired: .awake, ordering: .sequentiallyConsistent)
        }
        return state.withLock { event(for: ready, mode, &$0) }
    }

    private func event(for ready: WaitSet.Event?, _ mode: Int, _ state: inout State) -> Event {
        switch ready?.token {
        case nil, ModeItems.wakeToken?:
            return state.modes[mode].raisedTurn().map { .source($0, []) } ?? .none
        case ModeItems.timerToken?:
            state.modes[mode].timerExpired()
            return .timers
        case ModeItems.mainQueueToken?:
            return servesMainQueue(state, mode: mode) ? .mainQueue : .none
        case let token?:
            guard let ready, let watched = state.modes[mode].sources1[token] else { return .none }
            state.modes[mode].hadTurn(token)
            return .source(watched, ready.readiness)
        }
    }

    private func fireTimers(_ mode: Int) {
        // Those due now: one that a timer adds waits, even if it is due. Each looks again when its turn comes, for the
        // ones before may have removed it, moved it, or run the loop and had it fire.
        let now = MonotonicInstant.now
        for timer in state.withLock({ $0.modes[mode].timers.due(at: now) }) { timer.fire(in: self) }
    }

    private func perform(_ watched: ModeItems.Watched, _ readiness: Readiness, _ mode: Int, one: Bool) -> Bool {
        // An observer of the end of the sleep may have removed it.
        guard state.withLock({ $0.modes[mode].sources1[watched.token] != nil }) else { return false }
        var turn = Turn(watched.source, in: self, mode: mode, readiness: readiness, one: one)
        let handled = watched.source.perform(&turn)
        if !readiness.isDisjoint(with: [.error, .hangUp]) {
            // Told once: the descriptor would only say the same again, for ever.
            let isOver = state.withLock { state in
                state.modes[mode].sources1[watched.token] != nil && Descriptor.isOver(watched.descriptor)
            }
            if isOver { removeEverywhere(.source1(watched.source)) }
        }
        return handled
    }
}

extension ThreadRunLoop.State {
    /// Whether a block is for this mode.
    fileprivate func runs(_ block: ThreadRunLoop.Block, in mode: Int) -> Bool {
        let name = modes[mode].mode
        return block.modes.contains(name) || (block.modes.contains(.common) && commonModes.contains(name))
    }
}
