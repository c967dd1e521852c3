import CRunLoopShims
import Synchronization

/// What a loop is doing, kept by its thread for those who look from others. Cheap enough to be kept always.
struct Progress: ~Copyable, Sendable {
    /// Written twice for each callout.
    private let callout = CacheLine(Atomic(Callout.none.bits))
    private let start = Atomic<UInt64>(0)
    /// Whether anybody wants to know since when.
    let isWatched = Atomic(false)
    /// How many watches want to be told when the loop gets on.
    let waitingWatches = Atomic(0)

    /// The innermost callout in progress.
    var currentCallout: Callout { Callout(bits: callout.value.load(ordering: .acquiring)) }

    /// Since when the loop has been in its present pass, as far as the clock's tick tells; nil when it sleeps, does not
    /// run, or is not watched.
    var passStart: MonotonicInstant? {
        let nanoseconds = start.load(ordering: .sequentiallyConsistent)
        return nanoseconds == 0 ? nil : MonotonicInstant(nanoseconds: nanoseconds)
    }

    @inline(__always)
    func calling<Result>(_ callout: Callout, _ body: () -> Result) -> Result {
        let outer = self.callout.value.load(ordering: .relaxed)
        self.callout.value.store(callout.bits, ordering: .relaxed)
        defer { self.callout.value.store(outer, ordering: .relaxed) }
        return body()
    }

    /// A pass begins. The first after a sleep, or of a run, may be what a watch has gone to sleep for itself: neither
    /// must miss the other.
    func passBegins() {
        if start.load(ordering: .relaxed) == 0 {
            start.store(crl_coarse_now(), ordering: .sequentiallyConsistent)
        } else {
            start.store(crl_coarse_now(), ordering: .relaxed)
        }
    }

    func passEnds() { start.store(0, ordering: .relaxed) }
}

extension ThreadRunLoop {
    func passBegins() {
        guard progress.isWatched.load(ordering: .relaxed) else { return }
        progress.passBegins()
        if progress.waitingWatches.load(ordering: .sequentiallyConsistent) > 0 { tellWatches() }
    }

    func passEnds() {
        guard progress.isWatched.load(ordering: .relaxed) else { return }
        progress.passEnds()
        if progress.waitingWatches.load(ordering: .relaxed) > 0 { tellWatches() }
    }

    private func tellWatches() {
        for watch in state.withLock({ $0.watches }) { watch.loopGoesOn() }
    }
}
