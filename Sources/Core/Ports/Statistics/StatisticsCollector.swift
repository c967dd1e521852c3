import RunLoopLocks

/// Collects the statistics of ports. A port knows the number of messages taken, and each sender the number of messages
/// sent. So the port's owner asks all senders.
final class StatisticsCollector: Sendable {
    typealias Tell = @Sendable (Collected) -> Void

    /// The result of a round of questions.
    struct Collected {
        /// Nil when the port is gone.
        let statistics: PortStatistics?
        /// Whether a message waits in the port's own queue.
        let isQueued: Bool
        /// The senders that have not answered, with more to send perhaps. The last answers count of those that have no ring.
        let silent: Set<Incarnation>
    }

    /// A round of questions to the senders of a port.
    private struct Round {
        let number: UInt64
        var awaited: Set<Incarnation>
        let tells: [Tell]
        /// The queries since the round began. The answers of this round may be older than they are, so they wait for
        /// the next round.
        var next: [Tell] = []
    }

    private struct State {
        /// By the number of the port.
        var rounds: [UInt64: Round] = [:]
        /// The ports of this runtime that keep a process's count.
        var counted: [Incarnation: Set<UInt64>] = [:]
        var last: UInt64 = 0
    }

    /// The port with a number; nil when it is gone.
    private let port: @Sendable (UInt64) -> (any CountedPort)?
    let control: ControlConnectionTable
    private let state = Lock(State())

    init(_ control: ControlConnectionTable, _ port: @escaping @Sendable (UInt64) -> (any CountedPort)?) {
        self.control = control
        self.port = port
    }

    /// Asks all senders of a port of this runtime.
    /// - Returns: The statistics, once the senders have answered, or their time is over; nil when the port is gone.
    func statistics(of port: UInt64) throws(PortError) -> Promise<PortStatistics?> {
        let answer = Promise<PortStatistics?>()
        // The housekeeping thread receives the senders' answers.
        try control.housekeeping.perform { self.collect(for: port) { answer.set($0.statistics) } }
        return answer
    }

    /// Takes what waits in a peer's ring to a port. Returns false without a ring.
    func takeRing(of peer: Incarnation, at number: UInt64) -> Bool { port(number)?.takeRing(of: peer) ?? false }

    /// Takes what waits in the rings of all peers to a port.
    func takeRings(at number: UInt64) {
        guard let port = port(number) else { return }
        for peer in port.ringPeers { port.takeRing(of: peer) }
    }

    /// Ends the rounds, whose queries retain those who ask, and by them the runtime's parts.
    func close() { _ = state.withLock { exchange(&$0.rounds, with: [:]) } }

    /// Forgets which senders a port of this runtime has counted.
    func portBecameInvalid(_ port: UInt64) {
        state.withLock { state in for sender in state.counted.keys { state.counted[sender]?.remove(port) } }
    }

    // MARK: On the housekeeping thread

    /// Asks all senders, and reports the statistics when all have answered or their time is over.
    func collect(for port: UInt64, tell: @escaping Tell) {
        let isUnderWay = state.withLock { $0.rounds[port]?.next.append(tell) != nil }
        if !isUnderWay { begin(port, [tell]) }
    }

    private func begin(_ port: UInt64, _ tells: [Tell]) {
        let senders = control.watchers(of: port)
        let number = state.withLock { state in
            state.last += 1
            state.rounds[port] = Round(number: state.last, awaited: Set(senders.map(\.incarnation)), tells: tells)
            return state.last
        }
        for sender in senders { sender.send(.count(port)) }
        guard !senders.isEmpty else { return finish(port, number) }
        // After that, the last answers of the other senders count.
        control.housekeeping.perform(after: .milliseconds(100)) { self.finish(port, number) }
    }

    func sent(_ count: Int, to number: UInt64, by incarnation: Incarnation) {
        guard let port = port(number) else { return }
        port.note(sent: count, by: incarnation)
        let complete = state.withLock { state -> UInt64? in
            state.counted[incarnation, default: []].insert(number)
            guard state.rounds[number]?.awaited.remove(incarnation) != nil else { return nil }
            return state.rounds[number].flatMap { $0.awaited.isEmpty ? $0.number : nil }
        }
        if let complete { finish(number, complete) }
    }

    private func finish(_ number: UInt64, _ round: UInt64) {
        let round = state.withLock { state in
            state.rounds[number]?.number == round ? state.rounds.removeValue(forKey: number) : nil
        }
        guard let round else { return }
        // A stopped sender does not answer, but its ring tells what it has sent.
        let port = port(number)
        port?.noteSentByRings(of: round.awaited)
        let look = port?.look(isComplete: round.awaited.isSubset(of: port?.ringPeers ?? []))
        let found = Collected(statistics: look?.statistics, isQueued: look?.isEmpty == false, silent: round.awaited)
        for tell in round.tells { tell(found) }
        if !round.next.isEmpty { begin(number, round.next) }
    }

    /// Drops the counts of a process whose last connection has ended.
    func connectionEnded(_ connection: ControlConnection) {
        let incarnation = connection.incarnation
        let counted = state.withLock { $0.counted.removeValue(forKey: incarnation) } ?? []
        for number in counted { port(number)?.senderDied(incarnation, connection.owner) }
        for number in connection.watchedPorts.subtracting(counted) { port(number)?.unaskedSenderDied(connection.owner) }
    }
}
