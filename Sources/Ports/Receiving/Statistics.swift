import RunLoops

/// The counts behind a port's statistics: messages that the port has taken, and messages that its senders have sent.
struct StatisticsCounts {
    private(set) var taken = 0
    /// The last counts of senders in other processes. A sender may report any count, so sums may overflow.
    private(set) var sent: [Incarnation: Int] = [:]
    /// The sent messages that will never be taken. Below zero: messages of processes that ended before they were asked.
    private var lost = 0
    /// Messages that seem to be on their way to an empty queue, and since when.
    private var missing: (count: Int, taken: Int, since: MonotonicInstant)?

    /// The longest time that a message needs to arrive. Messages missing for longer were lost with their senders.
    private static let transit = Duration.seconds(1)

    /// The processes whose counts are kept.
    var knownSenderCount: Int { sent.count }
    mutating func noteTaken() { taken += 1 }
    mutating func note(sent count: Int, by sender: Incarnation) { sent[sender] = count }

    /// Drops the count of a dead sender, because the port may outlive any number of senders.
    mutating func senderDied(_ sender: Incarnation) { lost &-= sent.removeValue(forKey: sender) ?? 0 }

    /// - Parameters:
    ///   - ownSent: The messages that this runtime has sent.
    ///   - now: Nil while a sender is silent: what is missing may be with that sender, however long.
    mutating func statistics(ownSent: Int, isEmpty: Bool, now: MonotonicInstant?) -> PortStatistics {
        let sentCount = sent.values.reduce(ownSent, &+)
        var waiting = sentCount &- taken &- lost
        if isEmpty {
            noteMissing(waiting, now)
            waiting = max(0, sentCount &- taken &- lost)
        }
        return PortStatistics(received: taken, waiting: isEmpty ? waiting : max(1, waiting))
    }

    private mutating func noteMissing(_ count: Int, _ now: MonotonicInstant?) {
        let former = missing
        missing = nil
        guard count != 0, let now else { return }
        guard let former, former.count == count, count < 0 || former.taken == taken else {
            return missing = (count, taken, now)
        }
        if former.since.duration(to: now) > Self.transit { lost &+= count } else { missing = former }
    }
}
