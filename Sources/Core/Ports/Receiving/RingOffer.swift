import Glibc
import RunLoops
import Synchronization

// The rings of a port, from the question of a peer to the end.

extension Receiver {
    /// Makes a ring for a peer, and hands it over. Called on the housekeeping thread.
    /// - Parameter question: The number of the peer's question.
    /// - Returns: False when the peer has to send by ZeroMQ.
    func makeRing(for peer: ControlConnection, question: UInt64) -> Bool {
        guard context.control.takesRings, let credentials = PeerCredentials(of: peer.socket.descriptor),
            (try? context.channels.sockets.checkReserve()) != nil,
            let (descriptor, memory) = RingMemory.make()
        else { return false }
        guard let (bell, other) = Bell.make() else {
            memory.unmap()
            return false
        }
        let sender = SenderCredentials(pid: credentials.pid, uid: credentials.uid, gid: credentials.gid)
        let ring = RingReceiver(
            memory, bell, peer: peer.incarnation, sender: sender, queueLimit: limits.queue,
            messageLimit: limits.message, question: question)
        guard intake.add(ring, hear) else { return false }
        guard let lender = arrival?.lender else { return handOver(ring, [descriptor, other], to: peer) }
        lender.keep(descriptor, of: ring.peer, sender, at: id) { [self] isKept in
            if isKept, handOver(ring, [descriptor, other], to: peer) { return }
            intake.changeRings { $0.remove(ring) }
            refuseRing(to: peer, question: question)
        }
        return true
    }

    /// Lets a peer send by ZeroMQ.
    func refuseRing(to peer: ControlConnection, question: UInt64) {
        if isLeaving { return }
        peer.send(.noRing(id.number, question: question))
    }

    /// Whether the port is about to move, or a lent port goes back to its lender. A peer that wants a ring gets no answer: it
    /// learns what has become of the port, and then asks again. By ZeroMQ, which it would use without a ring, its messages
    /// would end here.
    var isLeaving: Bool { intake.isPaused || !isValid && arrival?.isLent == true }

    /// Whether the port was invalidated while it is handed over. Until that is decided, nobody knows where it goes on.
    var isHandedOver: Bool {
        intake.isPaused && !intake.isClosed && !channel.hasMoved.load(ordering: .acquiring)
    }

    /// - Returns: False when the peer cannot get the ring now.
    private func handOver(_ ring: RingReceiver, _ descriptors: [OwnedDescriptor], to peer: ControlConnection) -> Bool {
        // Not by the outbox: a peer that reads nothing would get two descriptors of this process for each question, and the
        // kernel may refuse descriptors for as long as many are on their way.
        if peer.sendAtOnce(.ring(id.number, question: ring.question), descriptors) { return true }
        intake.changeRings { $0.remove(ring) }
        return false
    }

    /// A peer connects to the port by ZeroMQ, or has no such connection any more.
    func sendsByZeroMQ(_ peer: Incarnation, _ isOpen: Bool) {
        ringless.withLock { ringless in
            if isOpen { ringless.insert(peer) } else { ringless.remove(peer) }
        }
        // The peer finds it at its next attempt.
        if isOpen { exposure.renewSocket() }
    }

    /// A peer is gone, or sends no more by its ring. The messages that it has sent are taken first.
    /// - Parameters:
    ///   - question: The number of one ring's question; nil for all rings.
    ///   - isGone: Whether the last connection to the peer has ended.
    func endRings(of peer: Incarnation, question: UInt64? = nil, isGone: Bool = false) {
        let pid = isGone ? rings(of: peer).first?.sender.pid : nil
        let hasEnded = pid.map(ProcessStatus.isEnding) ?? false
        if isGone { sendsByZeroMQ(peer, false) }
        intake.changeRings { rings in
            noteSent(by: rings, of: { $0 == peer })
            // The process writes nothing more, but a child of its may.
            if hasEnded { rings.stopAll(of: peer) }
            rings.endWhenEmpty(of: peer, question: question)
        }
    }

    private func rings(of peer: Incarnation) -> [RingReceiver] { intake.readRings { $0.rings(of: peer) } ?? [] }

    /// Takes what waits in a peer's rings, and handles it, because the news of an end has come, which the messages precede.
    /// Called on the housekeeping thread.
    /// - Returns: False when the peer has no ring.
    @discardableResult
    func takeRing(of peer: Incarnation) -> Bool {
        intake.changeRings { $0.open(of: peer) }
        let found =
            intake.readRings { rings in
                rings.rings(of: peer).map { (ring: $0, end: $0.takenCount &+ UInt32($0.waitingCount)) }
            } ?? []
        if found.isEmpty { return false }
        guard (try? intake.beginTurn()) != nil else { return true }
        defer { intake.endTurn() }
        var used = LocalQueue.Batch()
        defer { queue.reuse(&used) }
        for (ring, end) in found {
            while intake.readRings({ _ in ring.hasRecord && Int32(bitPattern: ring.takenCount &- end) < 0 }) == true,
                var delivery = intake.take()
            {
                if delivery.isFirst { takers.tell() }
                delivery.handle(&used, inHand)
            }
        }
        return true
    }

    /// The peers whose rings tell how much they have sent.
    func noteSentByRings(of peers: Set<Incarnation>) {
        _ = intake.readRings { rings in noteSent(by: rings, of: peers.contains) }
    }

    /// Notes the counts of live senders. Of one that has ended, the count was noted at its end.
    private func noteSent(by rings: borrowing RingIntake, of isMeant: (Incarnation) -> Bool) {
        counts.withLock { counts in
            for ring in rings.all where isMeant(ring.peer) && !ring.isEnding {
                counts.note(sent: ring.sentCount, by: ring.peer)
            }
        }
    }

    private var rings: [RingReceiver] { intake.readRings { $0.all } ?? [] }

    /// The process ids of the peers with rings.
    var ringSenders: Set<pid_t> { Set(rings.map(\.sender.pid)) }

    /// The bytes of messages that wait in memory of their own, by the processes that have sent them.
    var waitingMemory: [pid_t: Int] {
        let sizes = intake.readRings { $0.all.map { ($0.sender.pid, $0.memorySize) } } ?? []
        return Dictionary(sizes, uniquingKeysWith: +)
    }

    /// The peers with rings.
    var ringPeers: Set<Incarnation> { Set(rings.map(\.peer)) }
}
