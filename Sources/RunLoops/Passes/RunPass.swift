import CRunLoopShims
import Glibc
import RunLoopLocks

// How a loop runs. The order of one pass is CFRunLoop's; `run(_:until:returnAfterSourceHandled:)` reads in that order.

extension ThreadRunLoop {
    func run(
        _ mode: Mode, until limit: @autoclosure () -> MonotonicInstant, returnAfterSourceHandled: Bool
    ) throws(RunLoopError) -> RunResult {
        try checkThread()
        guard let run = try open(mode) else { return .finished }
        notify(.entry, run)
        // A time in seconds counts from here, as CFRunLoop's does.
        let result = self.run(run, until: limit(), returnAfterSourceHandled: returnAfterSourceHandled)
        // A callout has forked: the run and its wait set are the parent's.
        if crl_is_forked() { throw .forked }
        notify(.exit, run)
        close()
        return result
    }

    private func run(_ mode: OpenMode, until limit: MonotonicInstant, returnAfterSourceHandled: Bool) -> RunResult {
        if isStoppedAtEntry(mode) { return .stopped }
        var pass = Pass(limit: limit, returnAfterSourceHandled: returnAfterSourceHandled)
        while true {
            var event = Event.none
            switch begin(&pass, mode) {
            case .mainQueue:
                event = .mainQueue
            case .nothing:
                event = sleep(mode, until: .distantPast, guestEndsAfterSource: returnAfterSourceHandled)
            case .sleep:
                notify(.beforeWaiting, mode)
                event = sleep(mode, until: limit, guestEndsAfterSource: returnAfterSourceHandled)
                notify(.afterWaiting, mode)
            }
            if let result = finish(&pass, mode, serving: event) { return result }
        }
    }

    // MARK: - The halves of a pass, before and after its sleep

    struct Pass {
        let limit: MonotonicInstant
        let returnAfterSourceHandled: Bool
        /// Whether the run goes on without an item.
        var mayBeEmpty = false
        var handledSource = false
        /// The main queue's turn comes first in a pass, except in the first pass and the pass after its last turn.
        var hasJustServedMainQueue = true
    }

    /// What comes between the halves of a pass.
    enum Pause {
        case sleep
        /// The pass only polls.
        case nothing
        /// The main queue has its turn, and nothing else.
        case mainQueue
    }

    @inline(__always)
    func begin(_ pass: inout Pass, _ mode: OpenMode) -> Pause {
        passBegins(.pass(mode: mode.index, depth: mode.depth))
        notify(.beforeTimers, mode)
        notify(.beforeSources, mode)
        performBlocks(mode)
        pass.handledSource = performSources0(mode, onlyFirst: pass.returnAfterSourceHandled)
        if pass.handledSource { performBlocks(mode) }
        let isMainQueueReady = !pass.hasJustServedMainQueue && mainQueueIsReady(mode)
        pass.hasJustServedMainQueue = false
        if isMainQueueReady { return .mainQueue }
        return pass.handledSource || pass.limit == .distantPast ? .nothing : .sleep
    }

    /// Serves the event, and returns the run's result if the run ends here.
    @inline(__always)
    func finish(_ pass: inout Pass, _ mode: OpenMode, serving event: consuming Event) -> RunResult? {
        switch consume event {
        case .none:
            break
        case .timers:
            fireTimers(mode)
        case .mainQueue:
            drainMainQueue()
            pass.handledSource = true
            pass.hasJustServedMainQueue = true
        case .guest:
            pass.handledSource = true
        case .source(let watched, let readiness):
            if perform(watched, readiness, mode, one: pass.returnAfterSourceHandled) { pass.handledSource = true }
        }
        performBlocks(mode)

        if pass.handledSource && pass.returnAfterSourceHandled { return .handledSource }
        if pass.limit == .distantPast || pass.limit.hasPassed { return .timedOut }
        return endOfPass(mode, mayBeEmpty: pass.mayBeEmpty)
    }

    // MARK: - Steps of a pass

    /// The mode of a run in progress, with the fields that a pass reads without the lock.
    struct OpenMode {
        let index: Int
        /// How many runs there are, with this one.
        let depth: Int
        let flags: ModeFlags
        let waitSet: WaitSet
        /// The loop's count of changes when the run began.
        let changes: Int
    }

    /// Not copied: the source would be retained once more.
    enum Event: ~Copyable {
        case none
        case timers
        case mainQueue
        /// The loop's guest has served a source of its own.
        case guest
        case source(ModeItems.Watched, Readiness)
    }

    /// Begins a run of the mode; nil when the mode is empty, unless the run `mayBeEmpty`.
    @inline(__always)
    func open(_ mode: Mode, mayBeEmpty: Bool = false) throws(RunLoopError) -> OpenMode? {
        if let outer = unraised.exchange(nil) { outer.takeUnretainedValue().raise() }
        return try state.withLock { state throws(RunLoopError) -> OpenMode? in
            if state.isStoppedForGood || mayBeEmpty && state.hasEnded { return nil }
            if mayBeEmpty { _ = state.madeIndex(of: mode, blocks) }
            guard let index = state.index(of: mode), mayBeEmpty || !isEmpty(state, mode: index) else { return nil }
            let waitSet = try state.modes[index].preparedWaitSet(&state.wake)
            state.runs.append(Run(mode: index, before: wakeStateTaken()))
            return OpenMode(
                index: index, depth: state.runs.count, flags: state.modes[index].flags, waitSet: waitSet,
                changes: changes.load(ordering: .acquiring))
        }
    }

    func close() {
        let (left, wakesOuter) = state.withLock { state in
            // The outer runs have not seen the reason of a wake-up that came in this run, nor this run's changes, if
            // they sleep.
            if let run = state.runs.popLast(), run.before != .awake, !state.runs.isEmpty {
                wakeState.value.store(.woken, ordering: .sequentiallyConsistent)
                return (state.runs.count, true)
            }
            return (state.runs.count, false)
        }
        // The other loop that has the thread in an outer run's sleep waits for the descriptor.
        if wakesOuter { endSleep() }
        // The outer run's pass has not stood still while this one served its items.
        if left == 0 { passEnds(.runEnds(left: 0)) } else { passBegins(.runEnds(left: left)) }
    }

    /// Whether an observer of the entry has stopped the run.
    func isStoppedAtEntry(_ mode: OpenMode) -> Bool {
        changes.load(ordering: .acquiring) != mode.changes && state.withLock { $0.takeStop() }
    }

    /// The run's result if it ends here. If not, only wake-ups from now on prevent the next sleep: the new pass sees
    /// the reasons of earlier ones.
    private func endOfPass(_ mode: OpenMode, mayBeEmpty: Bool) -> RunResult? {
        if crl_is_forked() { return .stopped }
        return state.withLock { state in
            if state.takeStop() { return .stopped }
            if !mayBeEmpty, isEmpty(state, mode: mode.index) { return .finished }
            if wakeStateTaken() == .woken { state.runs[state.runs.count - 1].noteWakeUp() }
            return nil
        }
    }

    /// The state until now; from now on the loop is awake.
    private func wakeStateTaken() -> WakeState {
        wakeState.value.load(ordering: .acquiring) == .awake
            ? .awake : wakeState.value.exchange(.awake, ordering: .sequentiallyConsistent)
    }

    func checkThread() throws(RunLoopError) {
        contract(
            isCurrent,
            "only its own thread can run a ThreadRunLoop: from another thread, perform a block on it or stop it")
        if crl_is_forked() { throw .forked }
    }

    /// Whether a run of the mode would end at once.
    func isFinished(_ mode: Mode) -> Bool {
        state.withLock { state in
            state.isStoppedForGood || state.index(of: mode).map { isEmpty(state, mode: $0) } ?? true
        }
    }

    private func isEmpty(_ state: borrowing State, mode: Int) -> Bool {
        guard !servesMainQueue(state, mode: mode), state.modes[mode].hasNoSourceOrTimer else { return false }
        return !blocks.hasDue(in: state.modes[mode].flags.blockModes)
    }

    @inline(__always)
    func notify(_ activity: Activity, _ mode: OpenMode) {
        if mode.flags.tells(activity) { tell(activity, mode) }
    }

    private func tell(_ activity: Activity, _ mode: OpenMode) {
        let observers = state.withLock { $0.modes[mode.index].observers.filter { $0.activities.contains(activity) } }
        for observer in observers where !crl_is_forked() { observer.tell(activity, in: self) }
    }

    private func performBlocks(_ mode: OpenMode) {
        if blocks.isEmpty { return }
        var due = blocks.takeDue(in: mode.flags.blockModes)
        let count = due.count
        guard count > 0 else { return }
        // Each block is released before the next begins.
        if progress.isRecorded {
            performRecorded(&due)
        } else {
            while !crl_is_forked(), let block = due.popFirst() { perform(block.work) }
            if progress.isRecorded { note(.ends(.block, count: 0)) }
        }
        if due.isEmpty { blocks.reuse(due, count: count) }
    }

    @inline(__always)
    func perform(_ work: BlockQueue.Work) {
        let outer: Callout
        switch work {
        case .closure(let body):
            outer = progress.enter(Callout(.block))
            body()
        case .job(let job):
            outer = progress.enter(Callout(.job))
            run(job)
        }
        _ = progress.enter(outer)
    }

    private func performSources0(_ mode: OpenMode, onlyFirst: Bool) -> Bool {
        guard mode.flags.hasSignaledSources else { return false }
        var (handled, onlyRequests) = (false, false)
        for source in mode.flags.signaledSources() where !crl_is_forked() && (source.isRequest || !onlyRequests) {
            guard source.performIfSignaled(in: self) else { continue }
            handled = true
            // A pass performs all requests that wait, unlike sources, as Apple's guide says.
            if onlyFirst && !source.isRequest { break }
            onlyRequests = onlyFirst
        }
        return handled
    }

    private func mainQueueIsReady(_ mode: OpenMode) -> Bool {
        guard isMain, !crl_is_forked(), state.withLock({ servesMainQueue($0, mode: mode.index) }) else { return false }
        var main = pollfd(fd: crl_main_queue_descriptor(), events: Int16(POLLIN), revents: 0)
        return poll(&main, 1, 0) == 1
    }

    /// - Parameter guestEndsAfterSource: Whether a guest's turn ends after a source of the guest's; nil for a run that has
    ///   no guest.
    func sleep(_ mode: OpenMode, until limit: MonotonicInstant, guestEndsAfterSource: Bool?) -> Event {
        if crl_is_forked() { return .none }
        if mayPoll, limit != .distantPast, let event = pollForWork(mode, until: limit) { return event }
        var (isRaised, isMainQueueAlone) = (false, true)
        let hasGuest = guestEndsAfterSource != nil && hasGuest.load(ordering: .acquiring)
        // An event known without asking the kernel.
        var known: Event?
        let isPolling = state.withLock { state -> Bool in
            isRaised = state.modes[mode.index].firstRaised() != nil
            // Raised sources and ready descriptors take turns. The kernel is not asked in a raised source's turn: it
            // moves a descriptor that it reports to the end of its queue, served or not.
            if let turn = state.modes[mode.index].raisedTurn() {
                known = .source(turn, [])
                return true
            }
            let isPolling = limit == .distantPast || !fallsAsleep(mode, &state, isRaised: isRaised)
            if isPolling, !isMain, state.modes[mode.index].sources1.isEmpty, !hasGuest {
                known = state.modes[mode.index].hasTimerDue() ? .timers : Event.none
                return true
            }
            prepareWait(mode, &state)
            if isMain { isMainQueueAlone = state.modes[mode.index].hasNoSourceOrTimer }
            if !isPolling { state.polling.noteSleep() }
            return isPolling
        }
        if let known { return known }
        if !isPolling { passEnds(.sleeps) }
        if hasGuest {
            let event = nextEventWithGuest(
                mode, isPolling ? nil : limit, endsAfterSource: guestEndsAfterSource == true,
                isMainQueueAlone: isMainQueueAlone)
            if !isPolling { wakesFromSleep(wakeUp(by: event)) }
            return event
        }
        let ready = nextEvent(mode, isPolling ? nil : limit, isMainQueueAlone: isMainQueueAlone)
        if !isPolling { wakesFromSleep(wakeUp(by: ready)) } else if ready == nil, !isRaised { return .none }
        return state.withLock { event(for: ready, mode.index, &$0) }
    }

    /// False when the loop must not sleep: after a wake-up since the pass began it must see the work first.
    @inline(__always)
    func fallsAsleep(_ mode: OpenMode, _ state: inout State, isRaised: Bool) -> Bool {
        !isRaised && !state.runs[state.runs.count - 1].isStopped && changeWakeState(from: .awake, to: .asleep)
    }

    @inline(__always)
    func wakesFromSleep(_ reason: @autoclosure () -> LoopRecording.WakeUp) {
        _ = changeWakeState(from: .asleep, to: .awake)
        if progress.isWatched { watchedPassBegins(.wakes(reason())) }
    }

    /// What the wait set reports until a time; with nil, at once, to a loop that does not sleep.
    @inline(__always)
    func nextEvent(_ mode: OpenMode, _ limit: MonotonicInstant?, isMainQueueAlone: Bool) -> WaitSet.Event? {
        var ready: WaitSet.Event?
        repeat {
            ready = mode.waitSet.wait(until: limit ?? .distantPast)
            // The edge of an old wake-up may be left in the set; a new wake-up has changed the state.
        } while ready?.token == ModeItems.wakeToken
            && (limit == nil || wakeState.value.load(ordering: .acquiring) != .woken)
        // The main queue had the last turn, so another ready descriptor comes first. A wake-up that this look takes
        // from the kernel is still in the state.
        if isMain, servedMainQueueLast.exchange(false, ordering: .relaxed), !isMainQueueAlone,
            ready?.token == ModeItems.mainQueueToken, let other = mode.waitSet.wait(until: .distantPast),
            other.token != ModeItems.wakeToken
        {
            return other
        }
        return ready
    }

    /// Has the wait set report the mode's timers and, where the run serves it, the main queue.
    func prepareWait(_ mode: OpenMode, _ state: inout State) {
        state.modes[mode.index].armTimer()
        if isMain { state.modes[mode.index].watchMainQueue(servesMainQueue(state, mode: mode.index)) }
    }

    func event(for ready: WaitSet.Event?, _ mode: Int, _ state: inout State) -> Event {
        switch ready?.token {
        case nil, ModeItems.wakeToken?:
            return state.modes[mode].raisedTurn().map { .source($0, []) } ?? .none
        case ModeItems.timerToken?: return .timers
        case ModeItems.mainQueueToken?:
            return servesMainQueue(state, mode: mode) ? .mainQueue : .none
        case let token?:
            guard let ready, let watched = state.modes[mode].sources1[token] else { return .none }
            state.modes[mode].hadTurn(token)
            return .source(watched, ready.readiness)
        }
    }

    private func fireTimers(_ mode: OpenMode) {
        // An observer of `afterWaiting` may have forked: the kernel's timer is the parent's.
        if crl_is_forked() { return }
        // The timers due now: a timer added by a handler waits, even if it is due. Each timer checks again at its turn:
        // a handler before may have removed it, moved it, or run the loop in which it fired.
        for timer in state.withLock({ $0.modes[mode.index].takeDueTimers() }) where !crl_is_forked() {
            timer.fire(in: self)
        }
    }

    private func perform(
        _ watched: consuming ModeItems.Watched, _ readiness: Readiness, _ mode: OpenMode, one: Bool
    ) -> Bool {
        let token = watched.token
        // An observer of `afterWaiting` may have removed the source.
        if mode.flags.tells(.afterWaiting),
            state.withLock({ $0.modes[mode.index].sources1[token] == nil })
        {
            return false
        }
        let mayBeOver =
            !readiness.isDisjoint(with: [.error, .hangUp, .readHangUp])
            && state.withLock { $0.modes[mode.index].end(of: token) } != nil
        var turn = Turn(watched.source, in: self, mode: mode.index, readiness: readiness, one: one)
        let handled = calling(Callout(.source1, turn.source)) { turn.source.perform(&turn) }
        if mayBeOver, !crl_is_forked(), state.withLock({ $0.modes[mode.index].settleEnd(of: token) }) {
            turn.source.invalidate()
        }
        return handled
    }
}

extension ThreadRunLoop.State {
    /// Whether the innermost run was stopped. Clears the stop.
    fileprivate mutating func takeStop() -> Bool {
        guard let run = runs.last, run.isStopped else { return false }
        runs[runs.count - 1].isStopped = false
        return true
    }
}
