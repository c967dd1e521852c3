import CRunLoopShims
import Glibc

// The sleep of a pass: the loop waits for an event, or its guest has the thread meanwhile.

extension LoopCore {
    /// - Parameter guestEndsAfterSource: Whether a guest's turn ends after a source of the guest's; nil for a run that has
    ///   no guest.
    func sleep(_ mode: OpenMode, until limit: MonotonicInstant, guestEndsAfterSource: Bool?) -> PassEvent {
        if crl_is_forked() { return .none }
        if mayPoll, limit != .distantPast, let event = pollForWork(mode, until: limit) { return event }
        var (isRaised, isMainQueueAlone) = (false, true)
        let hasGuest = guestEndsAfterSource != nil && hasGuest.load(ordering: .acquiring)
        // An event known without asking the kernel.
        var known: PassEvent?
        let isPolling = state.withLock { state -> Bool in
            isRaised = state.modes[mode.index].firstRaised() != nil
            // Raised sources and ready descriptors take turns. The kernel is not asked in a raised source's turn, because it
            // moves a descriptor that it reports to the end of its queue, served or not.
            if let turn = state.modes[mode.index].raisedTurn() {
                known = .source(turn, [])
                return true
            }
            let isPolling = limit == .distantPast || !fallsAsleep(isRaised: isRaised)
            if isPolling, !isMain, state.modes[mode.index].sources1.isEmpty, !hasGuest {
                known = state.modes[mode.index].hasTimerDue() ? .timers : PassEvent.none
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
        return state.withLock { event(for: ready, mode, &$0) }
    }

    /// False when the loop must not sleep, because after a wake-up since the pass began it must see the work first.
    @inline(__always)
    func fallsAsleep(isRaised: Bool) -> Bool {
        guard !isRaised, changeWakeState(from: .awake, to: .asleep) else { return false }
        if !isStopped { return true }
        // The loop may be woken by now, and stays so.
        _ = changeWakeState(from: .asleep, to: .awake)
        return false
    }

    @inline(__always)
    func wakesFromSleep(_ reason: @autoclosure () -> LoopWakeUp) {
        _ = changeWakeState(from: .asleep, to: .awake)
        if progress.isWatched { watchedPassBegins(.wakes(reason())) }
    }

    /// The event that the wait set reports before a time; with nil, at once, for a loop that does not sleep.
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

    /// Makes the wait set report the mode's timers and, where the run serves it, the main queue.
    func prepareWait(_ mode: OpenMode, _ state: inout LoopState) {
        state.modes[mode.index].armTimer()
        if isMain { state.modes[mode.index].watchMainQueue(mode.servesMainQueue && crl_main_queue_descriptor() >= 0) }
    }

    /// Whether a mode's sleep is over. The descriptor is its wait set's.
    func hasWork(_ waitSet: Int32) -> Bool { isWoken || crl_poll(waitSet, -1, 0) != 0 }

    func event(for ready: WaitSet.Event?, _ mode: OpenMode, _ state: inout LoopState) -> PassEvent {
        switch ready?.token {
        case nil, ModeItems.wakeToken?:
            return state.modes[mode.index].raisedTurn().map { .source($0, []) } ?? .none
        case ModeItems.timerToken?: return .timers
        case ModeItems.mainQueueToken?:
            return mode.servesMainQueue ? .mainQueue : .none
        case let token?:
            guard let ready, let watched = state.modes[mode.index].sources1[token] else { return .none }
            state.modes[mode.index].hadTurn(token)
            return .source(watched, ready.readiness)
        }
    }

    /// The next event, for a loop whose guest has the thread meanwhile.
    func nextEventWithGuest(
        _ mode: OpenMode, _ limit: MonotonicInstant?, endsAfterSource: Bool, isMainQueueAlone: Bool
    ) -> PassEvent {
        let (guest, name) = state.withLock { ($0.guest, $0.modes[mode.index].mode) }
        // A guest with work in each turn leaves every other pass to the loop's own events.
        var isOwnTurn = servedGuestLast.exchange(false, ordering: .relaxed)
        while true {
            if !isOwnTurn {
                let isReady = limit == nil || crl_poll(mode.waitSet.set, -1, 0) != 0
                let time = GuestTime(
                    mode: name, waitSet: mode.waitSet.set, deadline: isReady ? .distantPast : limit ?? .distantPast,
                    endsAfterSource: endsAfterSource)
                let hasServed = guest?(time) ?? false
                if crl_is_forked() { return .none }
                if hasServed {
                    servedGuestLast.store(true, ordering: .relaxed)
                    return .guest
                }
            }
            isOwnTurn = false
            let ready = nextEvent(mode, limit.map { _ in .distantPast }, isMainQueueAlone: isMainQueueAlone)
            guard let limit, ready == nil, !isWoken, !limit.hasPassed
            else { return state.withLock { event(for: ready, mode, &$0) } }
        }
    }
}
