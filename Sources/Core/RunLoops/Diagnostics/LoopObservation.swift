import CRunLoopShims
import Synchronization

/// A loop's state at one moment.
package struct LoopActivity: Sendable {
    package let threadID: Int32
    package let isMain: Bool
    /// The modes of the runs in progress, the innermost last.
    package let modes: [ThreadRunLoop.Mode]
    package let isWaiting: Bool
    /// The item in whose callout the loop is, or the kind of its work.
    package let callout: String
    /// When the pass in progress began, at the latest; nil for a loop that sleeps or does not run.
    package let passStart: MonotonicInstant?
    /// Whether the pass began before the observation, and so perhaps much earlier.
    package let isStartUnknown: Bool
}

/// Makes a loop note the starts of its passes, for an observer that reads them from time to time.
package final class LoopObservation: Sendable {
    package let loop: ThreadRunLoop
    /// When the observation began. The pass that was in progress then began before.
    private let start = MonotonicInstant.now

    package init(_ loop: ThreadRunLoop) {
        self.loop = loop
        loop.state.withLock { state in
            let isFirst = !state.isWatched
            state.observations += 1
            guard isFirst else { return }
            loop.progress.start.store(0, ordering: .relaxed)
            loop.progress.set(.monitors, true)
            // A loop that falls asleep after this check sees that it is watched, and clears the start.
            if !loop.isWaiting, !state.runs.isEmpty {
                _ = loop.progress.start.compareExchange(
                    expected: 0, desired: Progress.earlier, ordering: .sequentiallyConsistent)
            }
        }
    }

    deinit {
        // In a child, another thread of the parent may hold the lock for ever.
        if crl_is_forked() { return }
        loop.state.withLock { state in
            state.observations -= 1
            loop.progress.set(.monitors, state.isWatched)
        }
    }

    package var activity: LoopActivity {
        let callout = loop.progress.currentCallout
        let modes = loop.state.withLock { state in state.runs.map { state.modes[$0.mode].mode } }
        let isWaiting = loop.isWaiting
        let isEarlier = loop.progress.start.load(ordering: .relaxed) == Progress.earlier
        let passStart = isEarlier ? start : loop.progress.passStart
        return LoopActivity(
            threadID: loop.threadID, isMain: loop.isMain, modes: modes, isWaiting: isWaiting,
            callout: loop.name(of: callout) ?? callout.kind.text,
            passStart: isWaiting || modes.isEmpty ? nil : passStart, isStartUnknown: isEarlier)
    }
}

extension ThreadRunLoop.Source1 {
    /// The loops that have the source, and the modes.
    package var places: [(loop: ThreadRunLoop, modes: [ThreadRunLoop.Mode])] {
        membership.loops.compactMap { $0 as? ThreadRunLoop }.map { loop in
            (loop, loop.allModes.filter { loop.contains(self, forMode: $0) })
        }
    }
}
