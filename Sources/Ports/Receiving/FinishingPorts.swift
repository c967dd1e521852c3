import RunLoopLocks

/// The ports of a runtime whose owners wait for the last messages of all senders: so none is lost with the port's socket,
/// and each request gets its answer.
///
/// The owner tells each sender that the port finishes. The sender sends nothing more, sends a drain probe behind its last
/// message, and says when the port has answered the probe.
final class FinishingPorts: Sendable {
    struct Finish {
        var senders: Set<Incarnation> = []
        /// Those who are telling the senders: until all are told, not all can be done.
        var tellers = 0
        private(set) var areDone = Promise<Void>()
        private var isDone = false

        mutating func insert(_ sender: Incarnation) {
            senders.insert(sender)
            if isDone { (areDone, isDone) = (Promise(), false) }
        }

        mutating func noteDone() -> Promise<Void>? {
            isDone = isDone || senders.isEmpty && tellers == 0
            return isDone ? areDone : nil
        }
    }

    private let control: ControlConnectionTable
    private let ports = Lock<[UInt64: Finish]>([:])

    init(_ control: ControlConnectionTable) { self.control = control }

    /// Tells the senders.
    func begin(_ number: UInt64) {
        // Those that come from now on are told when they do.
        ports.withLock { $0[number, default: Finish()].tellers += 1 }
        for sender in control.watchers(of: number) { tell(sender, number) }
        end(number) { $0.tellers -= 1 }
    }

    /// Set when all that are senders now have sent their last message, and the port has taken it. Nil when the port does
    /// not finish.
    func areDone(_ number: UInt64) -> Promise<Void>? { ports.withLock { $0[number]?.areDone } }

    /// Tells a new sender that the port finishes, if it does.
    func watched(_ number: UInt64, by sender: ControlConnection) {
        if ports.withLock({ $0[number] != nil }) { tell(sender, number) }
    }

    private func tell(_ sender: ControlConnection, _ number: UInt64) {
        // An older library would not know the packet.
        guard sender.minor >= 2 else { return }
        _ = ports.withLock { $0[number]?.insert(sender.incarnation) }
        sender.send(.finishing(number))
        // Its end may have been told before it was inserted, and is not told again.
        if !control.isConnected(to: sender.incarnation) { finished(number, by: sender.incarnation) }
    }

    /// The port has taken all messages of the sender.
    func finished(_ number: UInt64, by sender: Incarnation) { end(number) { $0.senders.remove(sender) } }

    func connectionEnded(_ sender: Incarnation) {
        for number in ports.withLock({ Array($0.keys) }) { finished(number, by: sender) }
    }

    func remove(_ number: UInt64) { ports.withLock { $0[number] = nil } }

    private func end(_ number: UInt64, _ change: (inout Finish) -> Void) {
        let areDone = ports.withLock { ports -> Promise<Void>? in
            guard var port = ports[number] else { return nil }
            change(&port)
            let areDone = port.noteDone()
            ports[number] = port
            return areDone
        }
        areDone?.set(())
    }
}
