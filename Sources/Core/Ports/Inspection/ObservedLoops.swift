import RunLoopLocks
import RunLoops

/// The loops that somebody has asked about lately. They note the starts of their passes, so that the next answer says how
/// long a pass has lasted.
final class ObservedLoops: Sendable {
    private struct Entry {
        let observation: LoopObservation
        var end: MonotonicInstant

        /// A pass that has begun before the end and goes on keeps the entry. The next question needs its start, and the entry
        /// costs the loop nothing.
        var isOver: Bool {
            guard end.hasPassed else { return false }
            let start = observation.activity.passStart
            return start.map { $0 > end } ?? true
        }
    }

    private let entries = Lock<[ObjectIdentifier: Entry]>([:])
    private let housekeeping: Housekeeping

    private let time: Duration

    init(_ housekeeping: Housekeeping, for time: Duration = .seconds(60)) {
        (self.housekeeping, self.time) = (housekeeping, time)
    }

    /// Begins the observation, or goes on with it.
    func activity(of loop: ThreadRunLoop) -> LoopActivity {
        let known = entries.withLock { $0[ObjectIdentifier(loop)]?.observation }
        let observation = known ?? LoopObservation(loop)
        entries.withLock { entries in
            entries[ObjectIdentifier(loop)] = Entry(observation: observation, end: .now + time)
        }
        if known == nil { endLater(ObjectIdentifier(loop)) }
        return observation.activity
    }

    private func endLater(_ key: ObjectIdentifier) {
        housekeeping.perform(after: time) { [weak self] in
            // Released after the lock.
            let ended = self?.entries.withLock { entries in
                entries[key]?.isOver == true ? entries.removeValue(forKey: key) : nil
            }
            if ended == nil { self?.endLater(key) }
        }
    }
}
