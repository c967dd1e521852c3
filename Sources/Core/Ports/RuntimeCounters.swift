import RunLoops

extension PortRuntime {
    /// Reads the counters, which are counted anyway. Senders in other processes are asked what they have sent; one that does
    /// not answer within a tenth of a second counts with its last answer. All counts are zero in a forked child.
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
            counters.add(port, found)
        }
        let totals = ports.totals
        counters.received = totals.taken
        counters.dropped = totals.malformed + channels.droppedCount.load(ordering: .relaxed)
        counters.sent = channels.sentCount
        counters.refused = channels.refusedCount.load(ordering: .relaxed)
        counters.late = lateReplyCount
        counters.peers = control.peerCount
        counters.pools = inspector.pools.counters
        counters.services = inspector.services.all().reduce(into: [:]) { $0.merge($1) { first, _ in first } }
        return counters
    }
}
