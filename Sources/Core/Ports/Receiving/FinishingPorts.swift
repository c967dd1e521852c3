import RunLoopLocks
import RunLoops

/// The ports of a runtime whose owners wait for the last messages of all senders, because the port ends or moves, so that no
/// message is lost with the port's socket, and each request gets its answer.
///
/// The owner tells each sender that the port finishes, or moves. The sender sends nothing more, sends a drain probe behind its
/// last message, and reports when the port has answered the probe. A stopped sender reads nothing, and is given up.
final class FinishingPorts: Sendable {
    private let control: ControlConnectionTable
    private let state = Lock(FinishState())

    init(_ control: ControlConnectionTable) { self.control = control }

    /// Tells the senders that the port finishes, or moves.
    /// - Parameters:
    ///   - number: The port.
    ///   - requests: The requests that the port has taken; nil for a port that moves.
    func begin(_ number: UInt64, _ requests: (any TakenRequests)?) {
        // Senders that connect from now on are told when they watch the port.
        state.withLock { $0.begin(number, requests) }
        for sender in control.watchers(of: number) { tell(sender, number) }
        end { $0.tellersEnd(number) }
    }

    /// Waits for no process that watches the port for the first time from now on. Newcomers, one after another, would hold up
    /// the port for ever.
    func awaitNoOthers(_ number: UInt64) { state.withLock { $0.awaitNoOthers(number) } }

    /// Set when all current senders have sent their last messages and the port has taken them, or the senders are given
    /// up. Nil when the port does not finish.
    func areDone(_ number: UInt64) -> Promise<Void>? { state.withLock { $0.areDone(number) } }

    /// Tells a new sender that the port finishes, if it does.
    func watched(_ number: UInt64, by sender: ControlConnection) {
        if state.withLock({ $0.isFinishing(number) }) { tell(sender, number) }
    }

    private func tell(_ sender: ControlConnection, _ number: UInt64) {
        let peer = sender.incarnation
        let now = MonotonicInstant.now
        let told = state.withLock { state -> FinishState.Told? in
            guard let told = state.tell(peer, number, at: now) else { return nil }
            // Under the lock: a port that stays tells that after ``remove(_:)``, and the sender would wait for ever if it heard
            // this afterwards.
            sender.send(told.moves ? .moving(number) : .finishing(number))
            return told
        }
        guard let told else { return }
        if let look = told.look { giveUp(peer, number, look, after: now.duration(to: told.end)) }
        // The sender's end may have been reported before the sender was inserted, and is not reported again.
        if !control.isConnected(to: peer) { finished(number, by: peer) }
    }

    /// Gives the sender up if it reads nothing. A live sender may not have read the last packet yet, so it is checked
    /// several times.
    private func giveUp(_ sender: Incarnation, _ number: UInt64, _ look: UInt64, after delay: Duration, looks: Int = 3)
    {
        control.housekeeping.perform(after: max(.zero, delay)) { [weak self] in
            guard let self, state.withLock({ $0.goesOn(look, at: sender, number) }) else { return }
            guard control.isDeaf(sender) else { return tellAgain(sender, number, look) }
            if looks > 1 { return giveUp(sender, number, look, after: .milliseconds(10), looks: looks - 1) }
            end { $0.giveUp(sender, number) }
        }
    }

    /// Gives up the senders that have not answered and that a condition holds for, whether or not they read.
    func giveUp(_ number: UInt64, where condition: (Incarnation) -> Bool) {
        for sender in state.withLock({ $0.unanswering(number) }) where condition(sender) {
            end { $0.giveUp(sender, number) }
        }
    }

    /// A sender that reads may be slow, and may have ended its probes. A sender that was stopped before it answered leaves
    /// this packet unread.
    private func tellAgain(_ sender: Incarnation, _ number: UInt64, _ look: UInt64) {
        // By the connection that a port that stays tells, too.
        let connection = control.watchers(of: number).first { $0.incarnation == sender }
        state.withLock { state in
            // Under the lock, as in ``tell(_:_:)``.
            if let moves = state.moves(number) { connection?.send(moves ? .moving(number) : .finishing(number)) }
        }
        giveUp(sender, number, look, after: FinishState.patience)
    }

    /// The port has taken all messages of the sender.
    func finished(_ number: UInt64, by sender: Incarnation) { end { $0.finished(sender, number) } }

    func connectionEnded(_ sender: Incarnation) { end { $0.connectionEnded(sender) } }

    func remove(_ number: UInt64) { state.withLock { $0.remove(number) } }

    /// The senders of a port that were given up.
    func givenUp(_ number: UInt64) -> Set<Incarnation> { state.withLock { $0.givenUp(number) } }

    /// The time since which a process that was given up has not answered.
    func silence(of sender: Incarnation) -> MonotonicInstant? { state.withLock { $0.silence(of: sender) } }

    private func end(_ change: (inout FinishState) -> [FinishState.Effect]) {
        for effect in state.withLock({ change(&$0) }) {
            switch effect {
            case .done(let areDone): areDone.set(())
            case .silence(let requests, let sender, let isSilent): requests.note(sender, isSilent: isSilent)
            }
        }
    }
}
