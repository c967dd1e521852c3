import DequeModule

/// How many restarts are too many: more than some number in some time. The rule is that of Erlang's supervisors.
public struct RestartIntensity: Sendable, Hashable {
    /// The restarts that are fine.
    public var most: Int
    /// The time in which they are counted.
    public var period: Duration

    /// Makes a rule.
    public init(most: Int, in period: Duration) { (self.most, self.period) = (most, period) }
}

/// The restarts of late, and what they were for.
package struct RestartHistory {
    private let intensity: RestartIntensity
    private var restarts: Deque<(time: ContinuousClock.Instant, reason: String)> = []

    package init(_ intensity: RestartIntensity) { self.intensity = intensity }

    /// Notes a restart.
    /// - Returns: Nil when it is fine; else the reasons of all restarts of late.
    package mutating func note(_ reason: String, at time: ContinuousClock.Instant) -> [String]? {
        while let first = restarts.first, first.time + intensity.period < time { restarts.removeFirst() }
        restarts.append((time, reason))
        return restarts.count > intensity.most ? restarts.map(\.reason) : nil
    }
}
