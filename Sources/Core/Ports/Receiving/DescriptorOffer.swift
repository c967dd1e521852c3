import Glibc
import RunLoops

// The ways on which the descriptors of other processes' messages come to a port, from the question of a peer to the end.

extension Receiver {
    /// Makes a socket for the descriptors of a peer's messages, and hands its other end over. Called on the housekeeping
    /// thread.
    /// - Parameter question: The number of the peer's question, which messages name the socket with.
    /// - Returns: False without a descriptor.
    func makeDescriptorSocket(for peer: ControlConnection, question: UInt64) -> Bool {
        guard (try? context.channels.sockets.checkReserve()) != nil, let (socket, other) = DescriptorSocket.make(),
            intake.changeDescriptors({ $0.add(socket, question, of: peer.incarnation) })
        else { return false }
        if peer.sendAtOnce(.descriptorSocket(id.number, question: question), [other]) { return true }
        closeDescriptorSocket(of: peer.incarnation, question: question)
        return false
    }

    /// A peer sends no descriptors by this socket any more, and the port has taken all.
    func closeDescriptorSocket(of peer: Incarnation, question: UInt64) {
        intake.changeDescriptors { $0.close(question, of: peer) }
    }

    /// The numbers of messages with descriptors that wait, by the processes that have sent them.
    var waitingDescriptors: [pid_t: Int] {
        let counts = intake.waitingDescriptors
        return counts.isEmpty
            ? [:]
            : Dictionary(
                context.control.watchers(of: id.number).map { ($0.pid, counts[$0.incarnation] ?? 0) },
                uniquingKeysWith: +)
    }

    /// Closes the sockets of peers that are gone, when their messages were taken. Called when a connection has ended.
    /// - Parameter former: The peers that were gone a second ago, when no message was waiting.
    func closeDescriptorSocketsSoon(emptySince former: Set<Incarnation> = []) {
        let unconnected = intake.descriptorPeers.filter { !context.control.isConnected(to: $0) }
        guard !unconnected.isEmpty, !intake.closesDescriptorSockets.exchange(true, ordering: .relaxed) else { return }
        // A live peer connects again, unless it is stopped, and messages of a dead one may still be on their way by ZeroMQ.
        // After a late look, libzmq's thread may not have run either.
        let latest = MonotonicInstant.now + .milliseconds(1500)
        context.housekeeping.perform(after: .seconds(1)) { [weak self] in
            guard let self else { return }
            intake.closesDescriptorSockets.store(false, ordering: .relaxed)
            let stillUnconnected = unconnected.filter { !self.context.control.isConnected(to: $0) }
            let gone = intake.gone(of: stillUnconnected)
            let isEmpty = !latest.hasPassed && intake.look().isEmpty
            let closable = isEmpty ? gone.intersection(former) : []
            intake.changeDescriptors { $0.close(of: stillUnconnected, gone: closable) }
            closeDescriptorSocketsSoon(emptySince: isEmpty ? gone : [])
        }
    }
}
