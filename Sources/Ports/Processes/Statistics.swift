import RunLoops
import Synchronization

extension MachPort {
    /// How a port does.
    public struct Statistics: Sendable, Hashable {
        /// How many messages were taken from it since it was made.
        public let received: Int
        /// How many messages were sent and are not taken yet. What a killed sender had sent is counted as far as it was
        /// asked before; what was lost with it, until the queue was seen to be empty for a second.
        public let waiting: Int
    }
}

extension MachPort.SendRight {
    /// Asks the port's owner how the port does; the owner asks everybody who has sent something to it.
    ///
    /// As with ``ping(before:)``, it is the library in these processes that answers. It costs a port's messages
    /// nothing that nobody asks.
    ///
    /// - Parameter deadline: How long to wait. Connecting may take up to a second more. A sender that does not answer
    ///   within a tenth of a second counts with what it said the last time.
    /// - Throws: ``PortError``: `receiveTimedOut`, `isInvalid`, `becameInvalid`, `cannotConnect`…
    @available(*, noasync, message: "it blocks its thread")
    public func statistics(before deadline: MonotonicInstant = .now + .seconds(5)) throws(PortError)
        -> MachPort.Statistics
    {
        try PortProcess.checkUsable()
        guard isValid else { throw .isInvalid(port: description) }
        let peer = try channel.joinPeer(before: max(deadline, .now + .seconds(1)))
        let counts = PortProcess.current.sentCounts
        let answer = Answer()
        let tell: SentCounts.Tell = { answer.come($0) }
        let query = counts.add(tell, about: channel.id)
        defer { counts.remove(query) }
        if let peer {
            peer.send(.ask(query: query, channel.id.number))
        } else {
            // Where the answers of others come in.
            try PortProcess.current.housekeepingLoop().perform { [id = channel.id] in
                counts.collect(for: id.number, tell: tell)
            }
        }
        guard isValid else { throw .becameInvalid(port: description) }
        guard answer.came.wait(until: deadline) else { throw .receiveTimedOut(port: description) }
        guard let statistics = answer.statistics else { throw .becameInvalid(port: description) }
        return statistics
    }

    private final class Answer: Sendable {
        let came = Gate()
        private let content = Mutex<MachPort.Statistics?>(nil)

        var statistics: MachPort.Statistics? { content.withLock { $0 } }

        func come(_ statistics: MachPort.Statistics?) {
            content.withLock { $0 = statistics }
            came.open()
        }
    }
}

/// Finds out how many messages wait at ports: a port knows how many it has taken, and each sender how many it has sent.
final class SentCounts: Sendable {
    /// Told nil when the port is gone.
    typealias Tell = @Sendable (MachPort.Statistics?) -> Void

    /// The senders of a port of ours are being asked.
    private struct Round {
        let number: UInt64
        var awaited: Set<Incarnation>
        let tells: [Tell]
        /// Of those who have asked since: what was heard before may be older than their question, so the next round is
        /// theirs. One at a time, however many ask.
        var next: [Tell] = []
    }

    private struct State {
        /// Of this process to others.
        var queries: [UInt64: (port: PortID, tell: Tell)] = [:]
        /// By the number of the port.
        var rounds: [UInt64: Round] = [:]
        /// The ports of ours of which other processes have said how many messages they sent there.
        var told: [Incarnation: Set<UInt64>] = [:]
        var last: UInt64 = 0
    }

    private let state = Mutex(State())

    private static let patience = Duration.milliseconds(100)

    // MARK: Asking

    func add(_ tell: @escaping Tell, about port: PortID) -> UInt64 {
        state.withLock { state in
            state.last += 1
            state.queries[state.last] = (port, tell)
            return state.last
        }
    }

    func remove(_ query: UInt64) { _ = state.withLock { $0.queries.removeValue(forKey: query) } }

    func answered(_ query: UInt64, _ statistics: MachPort.Statistics?, by incarnation: Incarnation) {
        let tell = state.withLock { state in
            state.queries[query].flatMap { $0.port.incarnation == incarnation ? $0.tell : nil }
        }
        tell?(statistics)
    }

    func portBecameInvalid(_ port: PortID) {
        let tells = state.withLock { state in
            if port.incarnation == PortProcess.current.incarnation {
                for sender in state.told.keys { state.told[sender]?.remove(port.number) }
            }
            return state.queries.values.filter { $0.port == port }.map(\.tell)
        }
        for tell in tells { tell(nil) }
    }

    // MARK: Being asked, on the housekeeping thread

    /// Asks all who have sent something to a port of ours, and tells what is known when all have answered, or in a while.
    func collect(for port: UInt64, tell: @escaping Tell) {
        let isUnderWay = state.withLock { $0.rounds[port]?.next.append(tell) != nil }
        if !isUnderWay { begin(port, [tell]) }
    }

    private func begin(_ port: UInt64, _ tells: [Tell]) {
        let senders = PortProcess.current.peers.watching(port)
        let number = state.withLock { state in
            state.last += 1
            state.rounds[port] = Round(number: state.last, awaited: Set(senders.map(\.incarnation)), tells: tells)
            return state.last
        }
        for sender in senders { sender.send(.count(port)) }
        guard !senders.isEmpty, let loop = try? PortProcess.current.housekeepingLoop() else {
            return finish(port, number)
        }
        loop.add(ThreadRunLoop.Timer(after: Self.patience) { _ in self.finish(port, number) })
    }

    /// A sender's answer.
    func sent(_ count: Int, to number: UInt64, by incarnation: Incarnation) {
        guard let port = PortProcess.current.port(number) else { return }
        port.note(sent: count, by: incarnation)
        let complete = state.withLock { state -> UInt64? in
            state.told[incarnation, default: []].insert(number)
            guard state.rounds[number]?.awaited.remove(incarnation) != nil else { return nil }
            return state.rounds[number].flatMap { $0.awaited.isEmpty ? $0.number : nil }
        }
        if let complete { finish(number, complete) }
    }

    private func finish(_ port: UInt64, _ number: UInt64) {
        let round = state.withLock { state in
            state.rounds[port]?.number == number ? state.rounds.removeValue(forKey: port) : nil
        }
        guard let round else { return }
        let statistics = PortProcess.current.port(port)?.statistics
        for tell in round.tells { tell(statistics) }
        if !round.next.isEmpty { begin(port, round.next) }
    }

    /// Ports need not tell a sender that is gone from others any more.
    func connectionEnded(_ incarnation: Incarnation) {
        // With two connections, it is not gone before the second one ends; that one may have said the same.
        guard !PortProcess.current.peers.isConnected(to: incarnation) else { return }
        let ports = state.withLock { $0.told.removeValue(forKey: incarnation) } ?? []
        for port in ports { PortProcess.current.port(port)?.senderDied(incarnation) }
    }
}
