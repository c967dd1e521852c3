import RunLoopLocks
import RunLoops

/// The loops that somebody has asked about lately. They note the starts of their passes, so that the next who asks learns
/// how long a pass has lasted.
final class ObservedLoops: Sendable {
    private struct Entry {
        let observation: LoopObservation
        var end: MonotonicInstant
    }

    private let entries = Lock<[ObjectIdentifier: Entry]>([:])
    private let housekeeping: Housekeeping

    private static let time = Duration.seconds(60)

    init(_ housekeeping: Housekeeping) { self.housekeeping = housekeeping }

    /// Begins the observation, or goes on with it.
    func activity(of loop: ThreadRunLoop) -> LoopActivity {
        let known = entries.withLock { $0[ObjectIdentifier(loop)]?.observation }
        let observation = known ?? LoopObservation(loop)
        entries.withLock { entries in
            entries[ObjectIdentifier(loop)] = Entry(observation: observation, end: .now + Self.time)
        }
        if known == nil { endLater(ObjectIdentifier(loop)) }
        return observation.activity
    }

    private func endLater(_ key: ObjectIdentifier) {
        housekeeping.perform(after: Self.time) { [weak self] in
            // Released after the lock.
            let ended = self?.entries.withLock { entries in
                entries[key]?.end.hasPassed == true ? entries.removeValue(forKey: key) : nil
            }
            if ended == nil { self?.endLater(key) }
        }
    }
}
