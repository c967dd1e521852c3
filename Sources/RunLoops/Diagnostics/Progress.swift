import CRunLoopShims
import RunLoopLocks
import Synchronization

/// The callout and the pass that a loop is in. The loop's thread writes it always, at little cost, and others read it.
struct Progress: ~Copyable, Sendable {
    private let callout = CacheLine(Atomic(Callout(.none).bits))
    /// The start of the present pass, to the clock's tick; 0 when the loop sleeps, does not run, or is not watched.
    let start = Atomic<UInt64>(0)
    let isWatched = Atomic(false)
    let waitingWatches = Atomic(0)
    /// In place of the start of a pass that began before anybody watched.
    static let earlier: UInt64 = 1

    var currentCallout: Callout { Callout(bits: callout.value.load(ordering: .acquiring)) }

    var passStart: MonotonicInstant? {
        let nanoseconds = start.load(ordering: .sequentiallyConsistent)
        return nanoseconds <= Self.earlier ? nil : MonotonicInstant(nanoseconds: nanoseconds)
    }

    @inline(__always)
    func calling<Result>(_ callout: Callout, _ body: () -> Result) -> Result {
        let outer = self.callout.value.load(ordering: .relaxed)
        self.callout.value.store(callout.bits, ordering: .relaxed)
        defer { self.callout.value.store(outer, ordering: .relaxed) }
        return body()
    }
}

extension ThreadRunLoop {
    func passBegins() {
        guard progress.isWatched.load(ordering: .relaxed) else { return }
        if progress.start.load(ordering: .relaxed) == 0 {
            // A watch may wait for the first pass after a sleep, or of a run: the two must not miss each other.
            progress.start.store(crl_coarse_now(), ordering: .sequentiallyConsistent)
        } else {
            progress.start.store(crl_coarse_now(), ordering: .relaxed)
        }
        if progress.waitingWatches.load(ordering: .sequentiallyConsistent) > 0 { tellWatches() }
    }

    func passEnds() {
        guard progress.isWatched.load(ordering: .relaxed) else { return }
        progress.start.store(0, ordering: .relaxed)
        if progress.waitingWatches.load(ordering: .relaxed) > 0 { tellWatches() }
    }

    private func tellWatches() { for watch in state.withLock({ $0.watches }) { watch.loopGoesOn() } }
}
