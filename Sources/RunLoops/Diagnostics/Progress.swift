import CShims
import Synchronization

/// The callout and the pass that a loop is in. The loop's thread writes it always, at little cost, and others read it.
struct Progress: ~Copyable, Sendable {
    /// Written twice for each callout.
    private let callout = CacheLine(Atomic(Callout(.none).bits))
    private let start = Atomic<UInt64>(0)
    /// Whether a watch reads the start of the pass.
    let isWatched = Atomic(false)
    /// The number of watches that wait for the loop to go on.
    let waitingWatches = Atomic(0)

    /// The innermost callout in progress.
    var currentCallout: Callout { Callout(bits: callout.value.load(ordering: .acquiring)) }

    /// The start of the present pass, to the clock's tick; nil when the loop sleeps, does not run, or is not watched.
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

    /// A watch may wait for the first pass after a sleep, or of a run: sequential consistency keeps the loop and the
    /// watch from missing each other.
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
