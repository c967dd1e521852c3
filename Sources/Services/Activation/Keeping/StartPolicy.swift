import RunLoops
import Workers

/// Decides when a service that has ended may be started again.
struct StartPolicy {
    private static let intensity = RestartIntensity(most: 5, in: .seconds(10))
    /// How long requests get the reason of a failure, before the next one starts the service again.
    private static let pauses = Duration.seconds(1) ... .seconds(60)

    private var crashes = RestartHistory(intensity)
    private var pause = pauses.lowerBound
    private var wasUnused = false

    /// The service has ended.
    /// - Parameter life: The time from its start to its end.
    /// - Returns: Nil when the next message may start it; else the reason and the time without a start.
    mutating func ended(
        _ end: ServiceEnd, after life: Duration, at time: ContinuousClock.Instant
    ) -> (reason: String, pause: Duration)? {
        let wasUnused = exchange(&wasUnused, with: end == .unused)
        switch end {
        case .orderly:
            pause = Self.pauses.lowerBound
            return nil
        case .unused:
            // Once is no failure: somebody may have asked the process to end before it could take a message.
            guard wasUnused else { return nil }
            return ("it gives its port back without taking the message that waits", nextPause())
        case .crashed(let reason, let output):
            // It has worked for a while.
            if life >= Self.intensity.period { pause = Self.pauses.lowerBound }
            guard let reasons = crashes.note(reason, at: time) else { return nil }
            crashes = RestartHistory(Self.intensity)
            var distinct: [String] = []
            for reason in reasons where !distinct.contains(reason) { distinct.append(reason) }
            let ends = "it has ended too often, \(reasons.count) times in \(Self.intensity.period)"
            return ("\(ends): \(distinct.joined(separator: "; "))\(output)", nextPause())
        case .notStarted(let reason): return (reason, nextPause())
        }
    }

    private mutating func nextPause() -> Duration {
        defer { pause = min(pause * 2, Self.pauses.upperBound) }
        return pause
    }
}
