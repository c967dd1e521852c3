import CRunLoopShims
import RunLoopLocks
import Synchronization

/// The callout and the pass that a loop is in. The loop's thread writes it always, at little cost, and others read it.
struct Progress: ~Copyable, Sendable {
    /// Who wants to know more than the present callout.
    struct Watchers: OptionSet, AtomicRepresentable {
        let rawValue: UInt8
        static let monitors = Watchers(rawValue: 1)
        static let recorders = Watchers(rawValue: 2)
    }

    private let callout = CacheLine(Atomic(Callout(.none).bits))
    /// The start of the present pass, to the clock's tick; 0 when the loop sleeps, does not run, or has no monitor.
    let start = Atomic<UInt64>(0)
    private let watchers = Atomic<Watchers>([])
    let waitingWatches = Atomic(0)
    /// In place of the start of a pass that began before anybody watched.
    static let earlier: UInt64 = 1
    /// Whether the loop's thread has to look for other tapes.
    let hasOtherTapes = Atomic(false)
    /// The tapes that the loop's thread writes on. For that thread.
    let tapes = CacheLine(TapeChain())

    var currentCallout: Callout { Callout(bits: callout.value.load(ordering: .acquiring)) }

    var passStart: MonotonicInstant? {
        let nanoseconds = start.load(ordering: .sequentiallyConsistent)
        return nanoseconds <= Self.earlier ? nil : MonotonicInstant(nanoseconds: nanoseconds)
    }

    /// Called with the loop's lock held.
    func set(_ watcher: Watchers, _ watches: Bool) {
        let others = watchers.load(ordering: .relaxed).subtracting(watcher)
        watchers.store(watches ? others.union(watcher) : others, ordering: .sequentiallyConsistent)
    }

    var isWatched: Bool { !watchers.load(ordering: .relaxed).isEmpty }
    var isMonitored: Bool { watchers.load(ordering: .relaxed).contains(.monitors) }
    var isRecorded: Bool { watchers.load(ordering: .relaxed).contains(.recorders) }

    /// Makes a callout the present one, until the one that is returned is again.
    @inline(__always)
    func enter(_ callout: Callout) -> Callout {
        let outer = self.callout.value.load(ordering: .relaxed)
        self.callout.value.store(callout.bits, ordering: .relaxed)
        return Callout(bits: outer)
    }
}

extension ThreadRunLoop {
    @inline(__always)
    func calling<Result>(_ callout: Callout, _ body: () -> Result) -> Result {
        let outer = progress.enter(callout)
        if progress.isRecorded { noteBeginning() }
        let result = body()
        // Asked again: a recording may have begun or ended meanwhile.
        if progress.isRecorded { noteEnd() }
        _ = progress.enter(outer)
        return result
    }

    // Of the present callout, so that a loop without a recording need not keep another one.
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
            // A watch may wait for the first pass after a sleep, or of a run: the two must not miss each other.
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
}
