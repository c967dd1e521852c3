import RunLoops

/// Waits until no reply is on its way to requests whose home has ended, or has another owner. Replies and the news of the end
/// travel by different connections, so the news may arrive first.
struct ReplyDrain: Sendable {
    private let statistics: StatisticsCollector
    private let housekeeping: Housekeeping

    init(_ statistics: StatisticsCollector, _ housekeeping: Housekeeping) {
        (self.statistics, self.housekeeping) = (statistics, housekeeping)
    }

    /// The message that was taken last may not have been handled before.
    private static let handlingTime = Duration.milliseconds(50)

    /// Calls `done` when no reply is on its way any more. For the housekeeping thread.
    /// - Parameter ports: Takes what waits in rings, looks after the owner, and returns the numbers of the ports at which
    ///   replies may arrive. Called for each look.
    func begin(
        _ wait: ReplyWait, at ports: @escaping @Sendable (inout ReplyWait) -> [UInt64],
        then done: @escaping @Sendable () -> Void
    ) {
        var wait = wait
        let found = ports(&wait)
        look(wait, found[...], ports, done)
    }

    private func look(
        _ wait: ReplyWait, _ rest: ArraySlice<UInt64>, _ ports: @escaping @Sendable (inout ReplyWait) -> [UInt64],
        _ done: @escaping @Sendable () -> Void
    ) {
        guard let first = rest.first else { return housekeeping.perform(after: Self.handlingTime, done) }
        statistics.collect(for: first) { found in
            var wait = wait
            if wait.mayHaveReply(at: first, found) {
                housekeeping.perform(after: .milliseconds(50)) { [wait] in self.begin(wait, at: ports, then: done) }
            } else {
                look(wait, rest.dropFirst(), ports, done)
            }
        }
    }
}

/// What is known about the replies that may be on their way from a home that has ended, or that its port has left.
struct ReplyWait {
    let port: PortID
    /// False when the port has left its owner, which lives.
    let didEnd: Bool
    /// As far as this process knows: looked at in each check.
    var owner = Owner.connected
    /// The time for replies that were sent before. A reply may wait for room as long.
    private var patience: Patience<MonotonicInstant>
    /// The counts of messages that the ports for replies had received at the first check.
    private var received: [UInt64: Int] = [:]

    /// After this number of further messages, the messages of the dead process were taken.
    private static let surelyTaken = 10_000

    init(port: PortID, didEnd: Bool, at now: MonotonicInstant = .now) {
        (self.port, self.didEnd, patience) = (port, didEnd, Patience(.seconds(10), from: now))
    }

    enum Owner {
        case connected
        /// Between two connections.
        case unconnected
        case dead
        /// The owner is a former home, which this process may not know. It may be any sender of replies.
        case unknown
    }

    /// Whether a reply may be on its way to a port.
    mutating func mayHaveReply(
        at replyPort: UInt64, _ found: StatisticsCollector.Collected, now: MonotonicInstant = .now
    ) -> Bool {
        guard let statistics = found.statistics else { return false }
        return isOnItsWay(replyPort, statistics, found) && !patience.isOver(at: now)
    }

    private mutating func isOnItsWay(
        _ replyPort: UInt64, _ statistics: PortStatistics, _ found: StatisticsCollector.Collected
    ) -> Bool {
        switch owner {
        case .connected: return statistics.waiting > 0 || found.silent.contains(port.incarnation)
        case .unknown: return statistics.waiting > 0 || !found.silent.isEmpty
        // It was not asked.
        case .unconnected: return true
        case .dead: break
        }
        // All messages of a dead process have arrived, but perhaps not all were taken.
        let first = received[replyPort, default: statistics.received]
        received[replyPort] = first
        return found.isQueued && statistics.received - first < Self.surelyTaken
    }
}
