/// The wait before a restart: the longer, the more restarts there were one after the other.
package struct BackOff {
    private let range: ClosedRange<Duration>
    private var delay = Duration.zero

    package init(_ range: ClosedRange<Duration>) { self.range = range }

    /// A start has worked.
    package mutating func reset() { delay = .zero }

    /// The wait before the next restart. There is none before the first.
    package mutating func next() -> Duration {
        defer { delay = delay == .zero ? range.lowerBound : min(delay * 2, range.upperBound) }
        return delay
    }
}
