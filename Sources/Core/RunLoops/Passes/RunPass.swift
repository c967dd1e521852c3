import CRunLoopShims
import Glibc

// How a loop runs. The order of one pass is CFRunLoop's; `run(_:until:returnAfterSourceHandled:)` reads in that order.

extension LoopCore {
    func run(
        _ mode: RunLoopMode, until limit: @autoclosure () -> MonotonicInstant, returnAfterSourceHandled: Bool
    ) throws(RunLoopError) -> RunLoopResult {
        try checkThread()
        guard var run = try open(mode) else { return .finished }
        enter(&run)
        // A time in seconds counts from here, as CFRunLoop's does.
        let result = self.run(run, until: limit(), returnAfterSourceHandled: returnAfterSourceHandled)
        // A callout has forked, and the run and its wait set belong to the parent.
        if crl_is_forked() { throw .forked }
        notify(.exit, run)
        close()
        return result
    }

    private func run(_ mode: OpenMode, until limit: MonotonicInstant, returnAfterSourceHandled: Bool) -> RunLoopResult {
        // An observer of the entry may have stopped the run.
        if takeStop() { return .stopped }
        var pass = Pass(limit: limit, returnAfterSourceHandled: returnAfterSourceHandled)
        while true {
            var event = PassEvent.none
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
    func finish(_ pass: inout Pass, _ mode: OpenMode, serving event: consuming PassEvent) -> RunLoopResult? {
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

    /// Begins a run of the mode; nil when the mode is empty, unless the run `mayBeEmpty`.
    @inline(__always)
    func open(_ mode: RunLoopMode, mayBeEmpty: Bool = false) throws(RunLoopError) -> OpenMode? {
        if let outer = unraised.exchange(nil) { outer.takeUnretainedValue().raise() }
        return try state.withLock { state throws(RunLoopError) -> OpenMode? in
            if state.isStoppedForGood || mayBeEmpty && state.hasEnded { return nil }
            if mayBeEmpty { _ = state.madeIndex(of: mode, blocks) }
            guard let index = state.index(of: mode), mayBeEmpty || !isEmpty(state, mode: index) else { return nil }
            let waitSet = try state.modes[index].preparedWaitSet(wakeEvent)
            let outer = innermostRun.exchange(.goesOn, ordering: .acquiringAndReleasing)
            if outer != .none { state.runs[state.runs.count - 1].isStopped = outer == .stopped }
            state.runs.append(OpenRun(mode: index, formerState: wakeStateTaken()))
            return OpenMode(
                index: index, depth: state.runs.count, flags: state.modes[index].flags, waitSet: waitSet)
        }
    }

    /// Makes the mode's wait set now, so that no later run of the mode throws because no descriptor is left.
    package func prepare(_ mode: RunLoopMode) throws(RunLoopError) {
        try state.withLock { state throws(RunLoopError) in
            guard let index = state.index(of: mode) else { return }
            _ = try state.modes[index].preparedWaitSet(wakeEvent)
        }
    }

    @inline(__always)
    func enter(_ mode: inout OpenMode) {
        notify(.entry, mode)
        let index = mode.index
        if isMain, !crl_is_forked() { mode.servesMainQueue = state.withLock { mayServeMainQueue($0, mode: index) } }
    }

    func close() {
        let (left, wakesOuter) = state.withLock { state in
            let run = state.runs.popLast()
            innermostRun.store(state.runs.last?.innermostRun ?? .none, ordering: .releasing)
            // The outer runs have not seen the reason of a wake-up that came in this run, nor this run's changes, if
            // they sleep.
            if let run, run.formerState != .awake, !state.runs.isEmpty {
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

    /// The run's result if it ends here. If not, only wake-ups from now on prevent the next sleep, because the new pass
    /// sees the reasons of earlier ones.
    private func endOfPass(_ mode: OpenMode, mayBeEmpty: Bool) -> RunLoopResult? {
        if crl_is_forked() { return .stopped }
        return state.withLock { state in
            if takeStop() { return .stopped }
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
            isOnItsThread,
            "only its own thread can run a ThreadRunLoop: from another thread, perform a block on it or stop it")
        if crl_is_forked() { throw .forked }
    }

    /// Whether a run of the mode would end at once.
    func isFinished(_ mode: RunLoopMode) -> Bool {
        state.withLock { state in
            state.isStoppedForGood || state.index(of: mode).map { isEmpty(state, mode: $0) } ?? true
        }
    }

    private func isEmpty(_ state: borrowing LoopState, mode: Int) -> Bool {
        if mayServeMainQueue(state, mode: mode), crl_main_queue_descriptor() >= 0 { return false }
        guard state.modes[mode].hasNoSourceOrTimer else { return false }
        return !blocks.hasDue(in: state.modes[mode].flags.blockModes)
    }

    @inline(__always)
    func notify(_ activity: RunLoopActivity, _ mode: OpenMode) {
        if mode.flags.tells(activity) { tell(activity, mode) }
    }

    private func tell(_ activity: RunLoopActivity, _ mode: OpenMode) {
        let observers = state.withLock { $0.modes[mode.index].observers.filter { $0.activities.contains(activity) } }
        for observer in observers where !crl_is_forked() {
            guard let handler = observer.beginCall() else { continue }
            calling(Callout(.observer, observer)) { handler(observer, activity) }
            observer.endCall()
        }
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
        let outer = progress.enter(Callout(work.kind))
        work.call()
        _ = progress.enter(outer)
    }

    private func performSources0(_ mode: OpenMode, onlyFirst: Bool) -> Bool {
        guard mode.flags.hasSignaledSources else { return false }
        var (handled, onlyRequests) = (false, false)
        for source in mode.flags.signaledSources() where !crl_is_forked() && (source.isRequest || !onlyRequests) {
            guard let perform = source.takeSignal() else { continue }
            calling(Callout(.source, source), perform)
            handled = true
            // A pass performs all requests that wait, unlike sources, as Apple's guide says.
            if onlyFirst && !source.isRequest { break }
            onlyRequests = onlyFirst
        }
        return handled
    }

    /// Whether a run that begins now in the mode serves libdispatch's main queue. In a common mode of the main loop it
    /// does, outside of the queue's callouts.
    private func mayServeMainQueue(_ state: borrowing LoopState, mode: Int) -> Bool {
        isMain && !drainsMainQueue.load(ordering: .relaxed)
            && state.modes[mode].flags.isCommon.load(ordering: .acquiring)
    }

    private func drainMainQueue() {
        drainsMainQueue.store(true, ordering: .relaxed)
        calling(Callout(.mainQueue)) { crl_main_queue_drain() }
        drainsMainQueue.store(false, ordering: .relaxed)
        servedMainQueueLast.store(true, ordering: .relaxed)
    }

    private func mainQueueIsReady(_ mode: OpenMode) -> Bool {
        guard mode.servesMainQueue, !crl_is_forked() else { return false }
        let descriptor = crl_main_queue_descriptor()
        guard descriptor >= 0 else { return false }
        var main = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&main, 1, 0) == 1
    }

    private func fireTimers(_ mode: OpenMode) {
        // An observer of `afterWaiting` may have forked, and the kernel's timer is the parent's.
        if crl_is_forked() { return }
        // The timers due now. A timer added by a handler waits, even if it is due. Each timer checks again at its turn,
        // because a handler before may have removed it, moved it, or run the loop in which it fired.
        for timer in state.withLock({ $0.modes[mode.index].takeDueTimers() }) where !crl_is_forked() {
            guard let (handler, date) = timer.beginFiring(in: self) else { continue }
            // Out of the queues, so that an inner run does not wake for this timer.
            requeue(timer)
            calling(Callout(.timer, timer)) { handler(timer) }
            timer.endFiring(for: date)
        }
    }

    private func perform(
        _ watched: consuming ModeItems.Watched, _ readiness: RunLoopReadiness, _ mode: OpenMode, one: Bool
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
        var turn = RunLoopTurn(watched.source, in: self, mode: mode.index, readiness: readiness, one: one)
        let handled = calling(Callout(.source, turn.source)) { turn.source.perform(&turn) }
        if mayBeOver, !crl_is_forked(), state.withLock({ $0.modes[mode.index].settleEnd(of: token) }) {
            turn.source.invalidate()
        }
        return handled
    }
}
