import CRunLoopShims
import Synchronization

/// When a loop polls for a source's next work in place of a sleep. A value of the loop's state.
///
/// Polling pays when the work comes sooner than a sleeping thread would wake. When the work does not come in time, the
/// loop sleeps at once the next time, then three times, then seven, and so on.
struct Polling {
    struct Target {
        let source: ObjectIdentifier
        let end: MonotonicInstant
    }

    /// The raised source whose work the loop polls for.
    private(set) var target: Target?
    /// The sleeps before the loop polls again.
    private(set) var sleepsLeft = 0
    private var sleepsAfterMiss = 1
    /// Until when the loop is known to have another processor.
    private var hasOtherProcessorUntil = MonotonicInstant.distantPast

    private static let mostSleeps = 1023

    /// Begins to poll, unless the loop is to sleep, polls for another source, or has only one processor, because then no
    /// thread could give it work.
    mutating func begin(
        _ source: ObjectIdentifier, for nanoseconds: UInt64, now: MonotonicInstant = .now,
        hasOtherProcessor: @autoclosure () -> Bool
    ) -> Bool {
        guard sleepsLeft == 0, target == nil || target?.source == source else { return false }
        // An empty turn gives the source no more time.
        if target != nil { return true }
        if hasOtherProcessorUntil <= now {
            guard hasOtherProcessor() else {
                miss()
                return false
            }
            hasOtherProcessorUntil = now + .milliseconds(100)
        }
        target = Target(source: source, end: MonotonicInstant(nanoseconds: now.nanoseconds + nanoseconds))
        return true
    }

    /// There is work. Long after the end of its time that is no success, because the loop has kept others from a processor.
    mutating func hit(at now: @autoclosure () -> MonotonicInstant = MonotonicInstant(nanoseconds: crl_coarse_now())) {
        if let target, target.end < now() { return miss() }
        (target, sleepsAfterMiss) = (nil, 1)
    }

    mutating func miss() {
        (target, hasOtherProcessorUntil) = (nil, .distantPast)
        sleepsLeft = sleepsAfterMiss
        sleepsAfterMiss = min(sleepsAfterMiss * 2 + 1, Self.mostSleeps)
    }

    /// Another thread has served the source.
    mutating func giveUp() { target = nil }

    mutating func noteSleep() { sleepsLeft = max(sleepsLeft - 1, 0) }
}

extension LoopCore {
    func beginPolling(for source: RunLoopSource1, mode: Int) -> Bool {
        let time = pollingNanoseconds.load(ordering: .relaxed)
        return state.withLock { state in
            // Two raised sources would have their turns in turn, and none of them its time.
            !state.modes[mode].hasRaised(otherThan: ObjectIdentifier(source))
                && state.polling.begin(ObjectIdentifier(source), for: time, hasOtherProcessor: crl_has_processors())
        }
    }

    func giveUpPolling() { state.withLock { $0.polling.giveUp() } }

    /// Waits awake for the source that the loop polls for, and for all else that ends a sleep.
    ///
    /// - Returns: Nil when the pass goes on as without polling: the source has work, or has had its time.
    func pollForWork(_ mode: OpenMode, until limit: MonotonicInstant) -> PassEvent? {
        let changes = changes.load(ordering: .acquiring)
        // A stop since the last pass may be counted already.
        if isStopped { return PassEvent.none }
        let target = state.withLock { state -> (ModeItems.Watched, end: MonotonicInstant)? in
            guard let target = state.polling.target else { return nil }
            guard let watched = state.modes[mode.index].onlyRaised(target.source) else {
                state.polling.giveUp()
                return nil
            }
            prepareWait(mode, &state)
            return (watched, target.end)
        }
        guard let (watched, end) = target else { return nil }
        passEnds(.polls)
        defer { passBegins(.wakes(nil)) }
        while true {
            for _ in 0..<16 {
                if watched.source.hasWork() {
                    state.withLock { $0.polling.hit() }
                    return nil
                }
                guard watched.source.isPolled, self.changes.load(ordering: .relaxed) == changes else {
                    state.withLock { $0.polling.giveUp() }
                    return nil
                }
                // The loop goes on to poll after the pass that the wake-up asks for.
                if wakeState.value.load(ordering: .relaxed) == .woken { return PassEvent.none }
                crl_pause()
            }
            if let ready = mode.waitSet.wait(until: .distantPast), ready.token != ModeItems.wakeToken {
                return state.withLock { state in
                    if ready.token == watched.token { state.polling.hit() }
                    return event(for: ready, mode, &state)
                }
            }
            let now = MonotonicInstant.now
            if limit <= now { return PassEvent.none }
            if end <= now || !mayPoll {
                state.withLock { $0.polling.miss() }
                return nil
            }
        }
    }
}
