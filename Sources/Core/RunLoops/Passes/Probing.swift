import CRunLoopShims
import DequeModule

// The notes of a pass for stall monitors and recorders.

extension LoopCore {
    @inline(__always)
    func calling<Result>(_ callout: Callout, _ body: () -> Result) -> Result {
        let outer = progress.enter(callout)
        if progress.isRecorded { noteBeginning() }
        let result = body()
        // Asked again, because a recording may have begun or ended meanwhile.
        if progress.isRecorded { noteEnd() }
        _ = progress.enter(outer)
        return result
    }

    // For the present callout, so that a loop without a recording need not keep another one.
    private func noteBeginning() { note(.begins(progress.currentCallout)) }
    private func noteEnd() { note(.ends(progress.currentCallout)) }

    /// The loop goes on with a pass, after this event.
    @inline(__always)
    func passBegins(_ event: LoopEvent) {
        if progress.isWatched { watchedPassBegins(event) }
    }

    /// The loop does nothing, after this event.
    @inline(__always)
    func passEnds(_ event: LoopEvent) {
        if progress.isWatched { watchedPassEnds(event) }
    }

    func watchedPassBegins(_ event: LoopEvent) {
        if progress.isRecorded { note(event) }
        guard progress.isMonitored else { return }
        if progress.start.load(ordering: .relaxed) == 0 {
            // A watch may wait for the first pass after a sleep, or of a run. The watch counts itself and then reads the
            // start; the loop stores the start and then reads the count. So one of them sees the other.
            progress.start.store(crl_coarse_now(), ordering: .sequentiallyConsistent)
        } else {
            progress.start.store(crl_coarse_now(), ordering: .relaxed)
        }
        if progress.waitingWatches.load(ordering: .sequentiallyConsistent) > 0 { tellWatches() }
    }

    private func watchedPassEnds(_ event: LoopEvent) {
        if progress.isRecorded { note(event) }
        guard progress.isMonitored else { return }
        progress.start.store(0, ordering: .relaxed)
        if progress.waitingWatches.load(ordering: .relaxed) > 0 { tellWatches() }
    }

    private func tellWatches() { for watch in state.withLock({ $0.watches }) { watch.loopGoesOn() } }

    /// Makes the loop's thread take other tapes at its next event. Called with the loop's lock held.
    func tapesChanged() {
        progress.hasOtherTapes.store(true, ordering: .releasing)
        progress.set(.recorders, true)
    }

    /// Writes an event on the tapes. Called on the loop's thread.
    @inline(never)
    func note(_ event: LoopEvent) {
        if progress.hasOtherTapes.load(ordering: .acquiring) { takeTapes() }
        progress.tapes.value.write(event)
    }

    private func takeTapes() {
        // In a child, another thread of the parent may hold the lock for ever.
        if crl_is_forked() { return }
        let tapes = state.withLock { state in
            progress.hasOtherTapes.store(false, ordering: .relaxed)
            progress.set(.recorders, !state.tapes.isEmpty)
            return state.tapes
        }
        _ = progress.tapes.exchange(TapeChain(tapes))
    }

    /// Performs blocks as a pass does. Blocks of one kind that begin in the same tick of the clock share two events,
    /// because a short block takes no longer than the events would.
    func performRecorded(_ due: inout Deque<BlockQueue.Block>) {
        var (kind, count, tick) = (Callout.Kind.block, 0, UInt64(0))
        func end() { if count > 0 { note(.ends(kind, count: count)) } }
        while !crl_is_forked(), let block = due.popFirst() {
            let now = crl_coarse_now()
            if count == 0 || block.work.kind != kind || now != tick {
                end()
                (kind, count, tick) = (block.work.kind, 0, now)
                note(.begins(Callout(kind)))
            }
            count += 1
            perform(block.work)
        }
        end()
    }

    /// The reason for the end of a sleep.
    func wakeUp(by ready: WaitSet.Event?) -> LoopWakeUp {
        switch ready?.token {
        case nil, ModeItems.wakeToken?: isWoken ? .wakeUp : .timeLimit
        case ModeItems.timerToken?: .timer
        case ModeItems.mainQueueToken?: .mainQueue
        default: .source
        }
    }

    func wakeUp(by event: borrowing PassEvent) -> LoopWakeUp {
        switch event {
        case .none: isWoken ? .wakeUp : .timeLimit
        case .timers: .timer
        case .mainQueue: .mainQueue
        case .guest: .guest
        case .source: .source
        }
    }
}
