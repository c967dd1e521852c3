import RunLoops

/// The counts behind a port's statistics: messages that its senders have sent, compared with those that it has taken.
struct StatisticsCounts {
    /// A sender whose last connection has ended, and some of whose messages may wait.
    struct Ended {
        let sender: ProcessIdentity
        /// Zero when the sender was never asked.
        let sent: Int
        /// The messages sent since the queue was last seen empty.
        let sinceEmpty: Int
        fileprivate var since = MonotonicInstant.now
    }

    /// The last counts of senders in other processes.
    private(set) var sent: [Incarnation: Int] = [:]
    /// The counts when the queue was last seen empty.
    private var sentBefore: (own: Int, others: [Incarnation: Int]) = (0, [:])
    /// The newest of the senders that have ended since the queue was last seen empty.
    private(set) var ended: [Ended] = []
    /// The sent messages that will never be taken. A negative number counts messages of processes that ended before
    /// they were asked.
    private var lost = 0
    /// Messages that seem to be on their way to an empty queue, and the time since which they have been missing.
    private var missing: (count: Int, taken: Int, since: MonotonicInstant)?
    /// The number of messages that were taken at the last inspection, and the time since which it has not changed.
    private var seen: (taken: Int, since: MonotonicInstant)?

    /// The longest time that a message needs to arrive. Messages missing for longer were lost with their senders.
    private static let transit = Duration.seconds(1)
    /// An upper bound on the count that a sender may report. Sums of such counts do not overflow.
    private static let mostSent = 1 << 48
    private static let mostEnded = 16

    /// The processes whose counts are kept.
    var knownSenderCount: Int { sent.count }
    mutating func note(sent count: Int, by sender: Incarnation) { sent[sender] = min(max(0, count), Self.mostSent) }

    /// The messages of a sender since the queue was last seen empty: an upper bound on the number that wait.
    func sinceEmpty(by sender: Incarnation) -> Int {
        max(0, sent[sender, default: 0] - sentBefore.others[sender, default: 0])
    }
    func sinceEmpty(ownSent: Int) -> Int { max(0, ownSent - sentBefore.own) }

    /// Drops the count of a dead sender, because the port may outlive any number of senders.
    mutating func senderDied(_ sender: Incarnation, _ owner: ProcessIdentity) {
        let sinceEmpty = sinceEmpty(by: sender)
        guard let count = sent.removeValue(forKey: sender) else { return }
        lost &-= count
        if sinceEmpty > 0 { note(Ended(sender: owner, sent: count, sinceEmpty: sinceEmpty)) }
    }

    /// Notes a sender that has ended before anybody has asked it for its count, while messages wait.
    mutating func unaskedSenderDied(_ owner: ProcessIdentity) { note(Ended(sender: owner, sent: 0, sinceEmpty: 0)) }

    private mutating func note(_ sender: Ended) {
        if ended.count == Self.mostEnded {
            // A sender that was never asked may have sent nothing. It takes the place of another such sender only.
            guard let former = ended.firstIndex(where: { $0.sent == 0 }) ?? (sender.sent > 0 ? 0 : nil) else { return }
            ended.remove(at: former)
        }
        ended.append(sender)
    }

    /// - Parameters:
    ///   - taken: The messages that the port has taken.
    ///   - ownSent: The messages that this runtime has sent.
    ///   - now: Nil while a sender is silent: what is missing may be with that sender, however long.
    mutating func statistics(taken: Int, ownSent: Int, isEmpty: Bool, now: MonotonicInstant?) -> PortStatistics {
        let sentCount = sent.values.reduce(ownSent, &+)
        var waiting = sentCount &- taken &- lost
        if isEmpty {
            noteMissing(waiting, taken, now)
            waiting = max(0, sentCount &- taken &- lost)
            noteEmpty(ownSent, onTheirWay: waiting, now)
        }
        return PortStatistics(received: taken, waiting: isEmpty ? waiting : max(1, waiting))
    }

    /// Nothing waits here but what is on its way, which may be the last messages of any sender: a count may overtake the
    /// messages.
    private mutating func noteEmpty(_ ownSent: Int, onTheirWay count: Int, _ now: MonotonicInstant?) {
        guard count > 0 else {
            (sentBefore, ended) = ((ownSent, sent), [])
            return
        }
        let others = sent.map { ($0, $1 - min(sinceEmpty(by: $0), count)) }
        sentBefore = (ownSent - min(sinceEmpty(ownSent: ownSent), count), Dictionary(uniqueKeysWithValues: others))
        // What a sender had sent before its end has come by then, or will not.
        if let now { ended.removeAll { $0.since.duration(to: now) > Self.transit } }
        ended = ended.map {
            Ended(sender: $0.sender, sent: $0.sent, sinceEmpty: min($0.sinceEmpty, count), since: $0.since)
        }
    }

    private mutating func noteMissing(_ count: Int, _ taken: Int, _ now: MonotonicInstant?) {
        let former = missing
        missing = nil
        guard count != 0, let now else { return }
        guard let former, former.count == count, count < 0 || former.taken == taken else {
            return missing = (count, taken, now)
        }
        if former.since.duration(to: now) > Self.transit { lost &+= count } else { missing = former }
    }

    /// A lower bound for the time since the last message was taken: the time since the first call after that.
    mutating func timeSinceTaken(_ taken: Int) -> Duration {
        let now = MonotonicInstant.now
        if let seen, seen.taken == taken { return seen.since.duration(to: now) }
        seen = (taken, now)
        return .zero
    }
}
