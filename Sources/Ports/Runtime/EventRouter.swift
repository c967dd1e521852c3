import RunLoopLocks

/// Passes the reports of control connections and channels to the parts of the runtime that need them.
final class EventRouter: RuntimeEvents {
    private let target = Lock<Weak<PortRuntime>?>(nil)

    func setTarget(_ runtime: PortRuntime) { target.withLock { $0 = Weak(runtime) } }

    /// Nil before the runtime is complete, and after its end.
    fileprivate var runtime: PortRuntime? { target.withLock { $0?.object } }

    func channelBecameInvalid(_ port: PortID) {
        guard let runtime else { return }
        runtime.replies.pending.portBecameInvalid(port)
        runtime.statistics.portBecameInvalid(port, isOwn: port.incarnation == runtime.incarnation)
        runtime.registry.notePortInvalidated()
    }

    func requestUnanswered(_ request: UInt64, by peer: Incarnation) {
        runtime?.replies.pending.unanswered(request, by: peer)
    }

    func received(_ message: ControlMessage, from peer: ControlConnection) {
        let (runtime, sender) = (runtime, peer.incarnation)
        func channel(_ number: UInt64) -> SendChannel? {
            runtime?.channels.existing(PortID(incarnation: sender, number: number))
        }
        switch message {
        case .watch(let number):
            // The port may have become invalid before, or on another thread just now.
            if runtime?.ports.port(number)?.isValid != true { peer.tellInvalidated(number) }
        case .invalidated(let number): channel(number)?.invalidate()
        case .unanswered(let request): requestUnanswered(request, by: sender)
        case .credit(let number, let bytes): channel(number)?.returnCredit(Int(clamping: bytes))
        case .count(let number): peer.send(.sent(number, count: UInt64(channel(number)?.sentCount ?? 0)))
        case .sent(let number, let count): runtime?.statistics.sent(Int(clamping: count), to: number, by: sender)
        case .ask(let query, let number):
            guard let runtime else { return peer.answer(query, nil) }
            runtime.statistics.collect(for: number) { [weak peer] in peer?.answer(query, $0) }
        case .statistics(let query, let received, let waiting):
            let statistics = PortStatistics(received: Int(clamping: received), waiting: Int(clamping: waiting))
            runtime?.statistics.answered(query, statistics, by: sender)
        case .drained(let number, let probe): channel(number)?.drained(probe)
        }
    }

    func processDied(_ address: ControlAddress) {
        for channel in runtime?.channels.channels(to: address) ?? [] { channel.invalidate() }
    }

    func connectionBegan(_ peer: Incarnation, owing ports: Set<UInt64>) {
        controlConnectionChanged(peer)
        for number in ports { runtime?.ports.port(number)?.returnUndeliveredCredit() }
    }

    private func controlConnectionChanged(_ peer: Incarnation) {
        for channel in runtime?.channels.channels(to: peer) ?? [] { channel.controlConnectionChanged() }
    }

    func connectionEnded(_ peer: Incarnation, isLast: Bool) {
        controlConnectionChanged(peer)
        if isLast { runtime?.statistics.connectionEnded(peer) }
    }

    func mayBeAlive(_ address: ControlAddress) -> Bool { runtime?.registry.mayBeAlive(address) ?? true }
    func rights(to peer: Incarnation) -> [(port: PortID, address: ControlAddress, isWatched: Bool)] {
        runtime?.channels.channels(to: peer).map { ($0.id, $0.controlAddress, $0.isWatched) } ?? []
    }
}

extension SendChannel {
    /// The runtime of the channel; nil after its end.
    var runtime: PortRuntime? { (context.events as? EventRouter)?.runtime }
}
