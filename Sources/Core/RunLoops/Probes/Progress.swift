import CRunLoopShims
import RunLoopLocks
import Synchronization

/// Waits for a loop to go on with its next pass, or to end the present one.
protocol PassWatch: AnyObject, Sendable {
    /// Called on the loop's thread.
    func loopGoesOn()
}

/// The callout and the pass that a loop is in. The loop's thread always writes it, at little cost, and others read it.
struct Progress: ~Copyable, Sendable {
    /// The readers that need more than the present callout.
    struct Watchers: OptionSet, AtomicRepresentable {
        let rawValue: UInt8
        static let monitors = Watchers(rawValue: 1)
        static let recorders = Watchers(rawValue: 2)
    }

    private let callout = CacheLine(Atomic(Callout.none.bits))
    /// The start of the present pass, to the clock's tick; 0 when the loop sleeps, does not run, or has no monitor.
    let start = Atomic<UInt64>(0)
    private let watchers = Atomic<Watchers>([])
    /// The number of ``PassWatch``es that wait.
    let waitingWatches = Atomic(0)
    /// Stands for the start of a pass that began before its observation.
    static let earlier: UInt64 = 1
    /// Whether the loop's thread has to take other tapes.
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

    /// Makes a callout the present one, and returns the former one, which the caller enters again at the end.
    @inline(__always)
    func enter(_ callout: Callout) -> Callout {
        let outer = self.callout.value.load(ordering: .relaxed)
        self.callout.value.store(callout.bits, ordering: .relaxed)
        return Callout(bits: outer)
    }
}
