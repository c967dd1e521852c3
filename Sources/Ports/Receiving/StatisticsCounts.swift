import RunLoops

/// How many messages a port has taken, and how many its senders have sent: what its statistics are made of.
struct StatisticsCounts {
    private(set) var taken = 0
    /// The last counts of senders in other processes. They are the senders' word and may be anything, so sums may overflow.
    private var sent: [Incarnation: Int] = [:]
    /// How many of the sent messages will never be taken, as far as is known. Below zero: messages of processes that could
    /// not be asked any more.
    private var lost = 0
    /// Messages that seem to be on their way to an empty queue, and since when.
    private var missing: (count: Int, taken: Int, since: MonotonicInstant)?

    /// The time that a connection takes to bring what was sent. What has not come by then was lost with its sender.
    private static let transit = Duration.seconds(1)

    /// How many other processes' counts are kept.
    var knownSenderCount: Int { sent.count }

    mutating func noteTaken() { taken += 1 }

    mutating func note(sent count: Int, by sender: Incarnation) { sent[sender] = count }

    /// A sender's count is not kept after its process has gone: senders come and go, and the port may stay.
    mutating func senderDied(_ sender: Incarnation) { lost &-= sent.removeValue(forKey: sender) ?? 0 }

    /// - Parameters:
    ///   - ownSent: How many messages this runtime has sent.
    ///   - isEmpty: Whether nothing is left to take.
    mutating func statistics(ownSent: Int, isEmpty: Bool, now: MonotonicInstant) -> PortStatistics {
        let sentCount = sent.values.reduce(ownSent, &+)
        var waiting = sentCount &- taken &- lost
        if isEmpty {
            noteMissing(waiting, now)
            waiting = max(0, sentCount &- taken &- lost)
        }
        return PortStatistics(received: taken, waiting: isEmpty ? waiting : max(1, waiting))
    }

    private mutating func noteMissing(_ count: Int, _ now: MonotonicInstant) {
        let former = missing
        missing = nil
        if count < 0 { return lost &+= count }
        guard count > 0 else { return }
        guard let former, former.count == count, former.taken == taken else { return missing = (count, taken, now) }
        if former.since.duration(to: now) > Self.transit { lost &+= count } else { missing = former }
    }
}
