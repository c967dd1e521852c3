import RunLoops

/// Passes the reports of control connections and channels to the parts of the runtime that need them.
final class EventRouter: ControlEvents, SendEvents {
    private let target = Lock<Weak<PortRuntime>?>(nil)

    func setTarget(_ runtime: PortRuntime) { target.withLock { $0 = Weak(runtime) } }

    /// Nil before the runtime is complete, and after its end.
    fileprivate var runtime: PortRuntime? { target.withLock { $0?.object } }

    // MARK: Channels

    func channelBecameInvalid(_ port: PortID) {
        guard let runtime else { return }
        runtime.replies.pending.portBecameInvalid(port)
        runtime.statistics.portBecameInvalid(port, isOwn: port.incarnation == runtime.incarnation)
        runtime.registry.notePortInvalidated()
    }

    func requestUnanswered(_ request: UInt64, by peer: Incarnation) {
        runtime?.replies.pending.wasRefused(request, by: peer)
    }

    // MARK: Peers

    func portBecameInvalid(_ port: PortID) { runtime?.channels.existing(port)?.invalidate() }

    func creditReturned(_ bytes: Int, by port: PortID) { runtime?.channels.existing(port)?.returnCredit(bytes) }

    func portDrained(_ port: PortID, probe: UInt64) { runtime?.channels.existing(port)?.drained(probe) }

    func peerSent(_ count: Int, to number: UInt64, by peer: Incarnation, _ control: ControlConnections) {
        runtime?.statistics.sent(count, to: number, by: peer, control)
    }

    func collectStatistics(
        of number: UInt64, _ control: ControlConnections, _ answer: @escaping @Sendable (PortStatistics?) -> Void
    ) {
        if let runtime { runtime.statistics.collect(for: number, control, tell: answer) } else { answer(nil) }
    }

    func statisticsAnswered(_ query: UInt64, _ statistics: PortStatistics, by peer: Incarnation) {
        runtime?.statistics.answered(query, statistics, by: peer)
    }

    // MARK: Connections and processes

    func processDied(_ address: ControlAddress) {
        for channel in runtime?.channels.channels(to: address) ?? [] { channel.invalidate() }
    }

    func connectionEnded(_ peer: Incarnation, isLast: Bool) {
        for channel in runtime?.channels.channels(to: peer) ?? [] { channel.controlConnectionEnded() }
        if isLast { runtime?.statistics.connectionEnded(peer) }
    }

    func mayBeAlive(_ peer: Incarnation) -> Bool { runtime?.registry.mayBeAlive(peer) ?? false }

    func isValid(port number: UInt64) -> Bool { runtime?.ports.port(number)?.isValid ?? false }

    func sentCount(to port: PortID) -> Int { runtime?.channels.existing(port)?.sentCount ?? 0 }

    func watchedPorts(of peer: Incarnation) -> [PortID] {
        runtime?.channels.channels(to: peer).filter(\.isWatched).map(\.id) ?? []
    }

    func addresses(of peer: Incarnation) -> Set<ControlAddress> {
        Set(runtime?.channels.channels(to: peer).map(\.controlAddress) ?? [])
    }

    func hasRights(to address: ControlAddress) -> Bool {
        runtime?.channels.channels(to: address).isEmpty == false
    }
}

extension SendChannel {
    /// The runtime of the channel; nil after its end.
    var runtime: PortRuntime? { (context.events as? EventRouter)?.runtime }
}
