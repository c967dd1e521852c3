import CRunLoopShims
import RunLoopLocks
import Synchronization

/// The thread of a loop: whether it sleeps, and how another thread wakes it.
@_documentation(visibility: internal)
public class LoopThread: @unchecked Sendable {
    // Sound: each field is constant or atomic, has a lock, or belongs to the loop's thread.

    enum WakeState: UInt8, AtomicRepresentable {
        case awake
        case asleep
        /// A wake-up came: the loop must not sleep before another pass.
        case woken
    }

    enum InnermostRun: UInt8, AtomicRepresentable {
        /// No run is open.
        case none
        case goesOn
        case stopped
    }

    final let isMain: Bool
    final let threadID: Int32
    final let wakeState = CacheLine(Atomic(WakeState.awake))
    final let innermostRun = Atomic(InnermostRun.none)
    /// The eventfd that ends a sleep. The first run makes it.
    final let wakeEvent = WakeEvent()
    /// Counts the changes that can end a source's turn: removals, invalidations, stops.
    final let changes = Atomic(0)
    /// The source whose turn it is, if a run inside its handler has to find it raised. For the loop's thread.
    final let unraised = CacheLine<Unmanaged<RunLoopSource1>?>(nil)
    /// How long the loop polls before it sleeps, without the limit of the public setter.
    package final let pollingNanoseconds = Atomic<UInt64>(0)
    /// The number of open driven runs.
    final let drivenRuns = Atomic(0)
    final let hasGuest = Atomic(false)

    init(isMain: Bool) {
        crl_prepare_fork()
        self.isMain = isMain
        threadID = isMain ? crl_process_id() : crl_thread_id()
    }

    final var isOnItsThread: Bool {
        guard let value = crl_thread_value() else {
            // The main thread may use its loop and never have asked for it.
            return isMain && crl_thread_id() == threadID
        }
        return value == Unmanaged.passUnretained(self).toOpaque()
    }

    final var isAsleep: Bool { wakeState.value.load(ordering: .acquiring) == .asleep }
    final var isWoken: Bool { wakeState.value.load(ordering: .acquiring) == .woken }

    final var mayPoll: Bool {
        pollingNanoseconds.load(ordering: .relaxed) > 0 && drivenRuns.load(ordering: .relaxed) == 0
            && !hasGuest.load(ordering: .relaxed)
    }

    // A signal handler may wake and stop a loop whose lock the thread below it holds. So these take no lock and no memory.

    final func wake() {
        if crl_is_forked() { return }
        if wakeState.value.exchange(.woken, ordering: .sequentiallyConsistent) == .asleep { endSleep() }
    }

    final func endSleep() { wakeEvent.raise() }

    /// Stops the innermost run, if there is one.
    final func stopInnermost() {
        if crl_is_forked() { return }
        markInnermostStopped()
        noteStop()
    }

    /// The mark comes before the look at the wake state in ``noteStop()``, and the loop that falls asleep looks for the
    /// mark after it has changed the wake state. So one of the two sees the other.
    final func markInnermostStopped() {
        _ = innermostRun.compareExchange(
            expected: .goesOn, desired: .stopped, ordering: .sequentiallyConsistent)
    }

    /// Ends the turn or the sleep of a loop with a run that was stopped.
    final func noteStop() {
        changes.add(1, ordering: .releasing)
        if changeWakeState(from: .asleep, to: .woken) { endSleep() }
    }

    final var isStopped: Bool { innermostRun.load(ordering: .sequentiallyConsistent) == .stopped }

    /// Whether the innermost run was stopped. Clears the stop.
    final func takeStop() -> Bool {
        isStopped
            && innermostRun.compareExchange(
                expected: .stopped, desired: .goesOn, ordering: .acquiringAndReleasing
            ).exchanged
    }

    /// Whether a change needs a wake-up. A change by another thread does. The loop's own thread is awake and sees its
    /// changes, unless another loop drives this one and is in its own callouts.
    final var isChangedFromOutside: Bool { isAsleep || !isOnItsThread }

    final func wakeFromOutside() { if isChangedFromOutside { wake() } }

    /// Wakes the calling thread's loop if it sleeps, because another loop drives it. For changes that do not wake a
    /// loop when another thread makes them.
    static func wakeDriven(_ isConcerned: (LoopThread) -> Bool) {
        guard let value = crl_thread_value() else { return }
        Unmanaged<LoopThread>.fromOpaque(value)._withUnsafeGuaranteedRef { loop in
            if loop.isAsleep, isConcerned(loop) { loop.wake() }
        }
    }

    final func changeWakeState(from expected: WakeState, to desired: WakeState) -> Bool {
        wakeState.value.compareExchange(expected: expected, desired: desired, ordering: .sequentiallyConsistent)
            .exchanged
    }
}

/// A loop as its items know it.
protocol ItemLoop: LoopThread {
    /// Removes an invalid item from all modes.
    func removeEverywhere(_ item: Item)
    /// Gives a raised source its turn, and wakes the loop.
    func noteRaised(_ source: RunLoopSource1)
    /// Takes note of a timer's new date, and wakes the loop, as CFRunLoop does.
    func requeue(_ timer: RunLoopTimer)
    /// Whether the source's turn may go on after a change.
    func mayGoOn(_ source: RunLoopSource1, mode: Int) -> Bool
    /// Begins to poll for a source's work; false when the loop is not to poll now.
    func beginPolling(for source: RunLoopSource1, mode: Int) -> Bool
    func giveUpPolling()
}
