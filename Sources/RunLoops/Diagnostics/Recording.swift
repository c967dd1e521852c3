import CRunLoopShims
import DequeModule

/// The tapes that a loop's thread writes on. It retains them: no other thread can tell when it is done with one.
struct TapeChain {
    private let tapes: [Tape]
    private let first: Unmanaged<Tape>?

    init(_ tapes: [Tape] = []) {
        self.tapes = tapes
        first = tapes.first.map(Unmanaged.passUnretained)
        for (index, tape) in tapes.enumerated() {
            tape.next = index + 1 < tapes.count ? .passUnretained(tapes[index + 1]) : nil
        }
    }

    func write(_ event: LoopEvent) { first?._withUnsafeGuaranteedRef { $0.write(event) } }
}

extension ThreadRunLoop {
    /// Has the loop's thread look for other tapes at its next event. Called with the loop's lock held.
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

    /// Performs blocks as a pass does. Those of one kind that begin in the same tick of the clock share two events: a
    /// short block takes no longer than the events would.
    func performRecorded(_ due: inout Deque<BlockQueue.Block>) {
        var (kind, count, tick) = (Callout.Kind.none, 0, UInt64(0))
        func end() { if count > 0 { note(.ends(kind, count: count)) } }
        while !crl_is_forked(), let block = due.popFirst() {
            let now = crl_coarse_now()
            if block.work.kind != kind || now != tick {
                end()
                (kind, count, tick) = (block.work.kind, 0, now)
                note(.begins(Callout(kind)))
            }
            count += 1
            perform(block.work)
        }
        end()
    }

    /// What has ended a sleep.
    func wakeUp(by ready: WaitSet.Event?) -> LoopRecording.WakeUp {
        switch ready?.token {
        case nil, ModeItems.wakeToken?: isWokenUp ? .wakeUp : .timeLimit
        case ModeItems.timerToken?: .timer
        case ModeItems.mainQueueToken?: .mainQueue
        default: .source
        }
    }

    func wakeUp(by event: borrowing Event) -> LoopRecording.WakeUp {
        switch event {
        case .none: isWokenUp ? .wakeUp : .timeLimit
        case .timers: .timer
        case .mainQueue: .mainQueue
        case .guest: .guest
        case .source: .source
        }
    }
}

extension BlockQueue.Work {
    fileprivate var kind: Callout.Kind {
        switch self {
        case .closure: .block
        case .job: .job
        }
    }
}
