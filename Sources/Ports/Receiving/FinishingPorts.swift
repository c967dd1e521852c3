import RunLoopLocks

/// The ports of a runtime whose owners wait for the last messages of all senders: so none is lost with the port's socket,
/// and each request gets its answer.
///
/// The owner tells each sender that the port finishes. The sender sends nothing more, sends a drain probe behind its last
/// message, and says when the port has answered the probe.
final class FinishingPorts: Sendable {
    private struct Finish {
        var senders: Set<Incarnation> = []
        let areDone = Promise<Void>()
    }

    private let control: ControlConnectionTable
    private let ports = Lock<[UInt64: Finish]>([:])

    init(_ control: ControlConnectionTable) { self.control = control }

    /// Tells the senders. The promise is set when all have sent their last message, and the port has taken it.
    func begin(_ number: UInt64) -> Promise<Void> {
        // Those that come from now on are told when they do.
        let areDone = ports.withLock { ports in
            let port = ports[number] ?? Finish()
            ports[number] = port
            return port.areDone
        }
        for sender in control.watchers(of: number) { tell(sender, number) }
        end(number) { _ in }
        return areDone
    }

    /// Tells a new sender that the port finishes, if it does.
    func watched(_ number: UInt64, by sender: ControlConnection) {
        if ports.withLock({ $0[number] != nil }) { tell(sender, number) }
    }

    private func tell(_ sender: ControlConnection, _ number: UInt64) {
        // An older library would not know the packet.
        guard sender.minor >= 2 else { return }
        _ = ports.withLock { $0[number]?.senders.insert(sender.incarnation) }
        sender.send(.finishing(number))
        // Its end may have been told before it was inserted, and is not told again.
        if !control.isConnected(to: sender.incarnation) { finished(number, by: sender.incarnation) }
    }

    /// The port has taken all messages of the sender.
    func finished(_ number: UInt64, by sender: Incarnation) { end(number) { _ = $0.remove(sender) } }

    func connectionEnded(_ sender: Incarnation) {
        for number in ports.withLock({ Array($0.keys) }) { finished(number, by: sender) }
    }

    func remove(_ number: UInt64) { ports.withLock { $0[number] = nil } }

    private func end(_ number: UInt64, _ change: (inout Set<Incarnation>) -> Void) {
        let areDone = ports.withLock { ports -> Promise<Void>? in
            guard var port = ports[number] else { return nil }
            change(&port.senders)
            ports[number] = port
            return port.senders.isEmpty ? port.areDone : nil
        }
        areDone?.set(())
    }
}
