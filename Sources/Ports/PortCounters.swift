import RunLoops

/// The counters of a runtime's ports since the runtime was made. See ``PortRuntime/counters()``.
public struct PortCounters: Sendable, Hashable {
    /// The messages sent, to ports of this process, too. Requests, replies and the batches of streams are messages.
    public var sent = 0
    /// The messages taken from the ports' queues.
    public var received = 0
    /// The messages that were sent to the ports, also by other processes, and are not taken yet.
    public var waiting = 0
    /// The requests that were refused: they came to a port that ended, or to one that answers none.
    public var refused = 0
    /// The replies that came after their requests had ended, as ``PortRuntime/lateReplyCount``.
    public var late = 0
    /// The messages that nobody got, and whose senders were not told: malformed frames, and messages other than
    /// requests that waited in a port when it ended.
    public var dropped = 0
    /// The processes that have a connection with this one.
    public var peers = 0
    /// The valid ports, those of the library for replies, too.
    public var ports = 0
    /// The ports with names, by name.
    public var named: [String: Port] = [:]

    /// The counters of one port.
    public struct Port: Sendable, Hashable {
        /// The identity of the port. It tells ports apart that have had the same name one after the other.
        public var id: PortID
        /// The messages taken from the port's queue.
        public var received = 0
        /// The messages that were sent to the port and are not taken yet.
        public var waiting = 0
        /// The malformed frames that were dropped.
        public var dropped = 0
    }

    /// Makes counters of zero.
    public init() {}
}

extension PortRuntime {
    /// Reads the counters. They are counted anyway, so that reading them costs the messages nothing. Senders in other
    /// processes are asked what they have sent; one that does not answer within a tenth of a second counts with its
    /// last answer. All counts are zero in a forked child.
    public nonisolated(nonsending) func counters() async -> PortCounters {
        var counters = PortCounters()
        guard !Fork.isChild else { return counters }
        let answers = ports.all.compactMap { port in
            (try? statistics.statistics(of: port.id.number)).map { (port, $0) }
        }
        let deadline = MonotonicInstant.now + .seconds(1)
        for (port, answer) in answers {
            // A cancelled task, and a busy housekeeping thread, give the senders' last answers.
            let statistics = try? await answer.value(before: deadline, on: housekeeping)
            guard let found = statistics ?? port.look(isComplete: false).statistics else { continue }
            counters.ports += 1
            counters.waiting += found.waiting
            for name in port.exposure.serviceNames {
                counters.named[name] = PortCounters.Port(
                    id: port.channel.publicID, received: found.received, waiting: found.waiting,
                    dropped: port.intake.totals.malformed
                )
            }
        }
        let totals = ports.totals
        counters.received = totals.taken
        counters.dropped = totals.malformed + channels.droppedCount.load(ordering: .relaxed)
        counters.sent = channels.sentCount
        counters.refused = channels.refusedCount.load(ordering: .relaxed)
        counters.late = lateReplyCount
        counters.peers = control.peerCount
        return counters
    }
}
