import Glibc
import RunLoops
import Synchronization

// The lanes of a port, from the question of a peer to the end.

extension Receiver {
    /// Makes a lane for a peer, and hands it over. Called on the housekeeping thread.
    /// - Parameter question: The number of the peer's question.
    /// - Returns: False when the peer has to send by ZeroMQ.
    func makeLane(for peer: ControlConnection, question: UInt64) -> Bool {
        guard context.control.takesLanes, let credentials = PeerCredentials(of: peer.socket.descriptor),
            (try? context.channels.sockets.checkReserve()) != nil,
            let (descriptor, memory) = LaneMemory.make()
        else { return false }
        guard let (bell, other) = LaneBell.make() else {
            memory.unmap()
            return false
        }
        let sender = MessageSender(pid: credentials.pid, uid: credentials.uid, gid: credentials.gid)
        let lane = LaneReceiver(
            memory, bell, peer: peer.incarnation, sender: sender, queueLimit: Int(channel.right.queueLimit),
            messageLimit: channel.right.limit, question: question)
        guard intake.add(lane, hear) else { return false }
        guard let lender = arrival?.lender else { return handOver(lane, [descriptor, other], to: peer) }
        lender.keep(descriptor, of: lane.peer, sender, at: id) { [self] isKept in
            if isKept, handOver(lane, [descriptor, other], to: peer) { return }
            intake.changeLanes { $0.remove(lane) }
            refuseLane(to: peer, question: question)
        }
        return true
    }

    /// Lets a peer send by ZeroMQ.
    func refuseLane(to peer: ControlConnection, question: UInt64) {
        if isLeaving { return }
        peer.send(.noLane(id.number, question: question))
    }

    /// Whether the port is about to move, or a lent port goes back to its lender. A peer that wants a lane gets no answer: it
    /// learns what has become of the port, and then asks again. By ZeroMQ, which it would use without a lane, its messages
    /// would end here.
    var isLeaving: Bool { intake.isPaused || !isValid && arrival?.isLent == true }

    /// Whether the port was invalidated while it is handed over. Until that is decided, nobody knows where it goes on.
    var isHandedOver: Bool {
        intake.isPaused && !intake.isClosed && !channel.hasMoved.load(ordering: .acquiring)
    }

    /// - Returns: False when the peer cannot get the lane now.
    private func handOver(_ lane: LaneReceiver, _ descriptors: [OwnedDescriptor], to peer: ControlConnection) -> Bool {
        // Not by the outbox: a peer that reads nothing would get two descriptors of this process for each question, and the
        // kernel may refuse descriptors for as long as many are on their way.
        if peer.sendAtOnce(.lane(id.number, question: lane.question), descriptors) { return true }
        intake.changeLanes { $0.remove(lane) }
        return false
    }

    /// A peer has a connection of ZeroMQ to the port, or none any more.
    func sendsByZeroMQ(_ peer: Incarnation, _ isOpen: Bool) {
        laneless.withLock { laneless in
            if isOpen { laneless.insert(peer) } else { laneless.remove(peer) }
        }
    }

    /// A peer is gone, or sends no more by its lane. The messages that it has sent are taken first.
    /// - Parameters:
    ///   - question: The number of one lane's question; nil for all lanes.
    ///   - isGone: Whether the last connection to the peer has ended.
    func endLanes(of peer: Incarnation, question: UInt64? = nil, isGone: Bool = false) {
        let lanes = isGone ? lanes(of: peer) : []
        let hasEnded = lanes.first.map { ProcessStatus.isEnding($0.sender.pid) } ?? false
        if isGone { sendsByZeroMQ(peer, false) }
        intake.changeLanes { lanes in
            noteSent(by: lanes, of: { $0 == peer })
            if isGone { lanes.loseMemories(of: peer, hasEnded: hasEnded) }
            lanes.endWhenEmpty(of: peer, question: question)
        }
        // Once, however often the peer's connections end.
        if !hasEnded { for lane in lanes where setLookedAfter(lane, true) == false { endLater(lane) } }
    }

    /// - Returns: The former value; nil without lanes.
    @discardableResult
    private func setLookedAfter(_ lane: LaneReceiver, _ isLookedAfter: Bool) -> Bool? {
        intake.readLanes { _ in exchange(&lane.isLookedAfter, with: isLookedAfter) }
    }

    private func lanes(of peer: Incarnation) -> [LaneReceiver] { intake.readLanes { $0.lanes(of: peer) } ?? [] }

    private static let lookPeriod = Duration.seconds(1)

    /// A process that lives may announce memory by its lane when no connection is left by which the memory could come, and
    /// nobody reports its end any more.
    private func endLater(_ lane: LaneReceiver) {
        let stuck = takenBeforeStuck(lane)
        context.housekeeping.perform(after: Self.lookPeriod) { [weak self, weak lane] in
            // A lane that has ended is released.
            guard let self, let lane else { return }
            // The end of the new connection begins this again.
            if context.control.existing(lane.peer) != nil {
                setLookedAfter(lane, false)
                return
            }
            let isStuck = stuck != nil && stuck == takenBeforeStuck(lane)
            if isStuck || ProcessStatus.isEnding(lane.sender.pid) {
                // The process may write more, and the lane may be stuck once more. The call looks after it then.
                setLookedAfter(lane, false)
                endLanes(of: lane.peer, isGone: true)
            } else {
                endLater(lane)
            }
        }
    }

    /// The number of records that were taken before one that waits for its memory; nil when none waits.
    private func takenBeforeStuck(_ lane: LaneReceiver) -> UInt32? {
        intake.readLanes { _ in lane.waitsForMemory ? lane.takenCount : nil } ?? nil
    }

    /// Takes what waits in a peer's lanes, and handles it, because the news of an end has come, which the messages precede.
    /// Called on the housekeeping thread.
    /// - Returns: False when the peer has no lane.
    @discardableResult
    func takeLane(of peer: Incarnation) -> Bool {
        let found =
            intake.readLanes { lanes in
                lanes.lanes(of: peer).map { (lane: $0, end: $0.takenCount &+ UInt32($0.waitingCount)) }
            } ?? []
        if found.isEmpty { return false }
        guard (try? intake.beginTurn()) != nil else { return true }
        defer { intake.endTurn() }
        var used = LocalQueue.Batch()
        defer { channel.localQueue?.reuse(&used) }
        for (lane, end) in found {
            while intake.readLanes({ _ in lane.hasRecord && Int32(bitPattern: lane.takenCount &- end) < 0 }) == true,
                var delivery = intake.take()
            {
                if delivery.isFirst { takers.tell() }
                delivery.handle(&used, inHand)
            }
        }
        return true
    }

    /// The peers whose lanes tell how much they have sent.
    func noteSentByLanes(of peers: Set<Incarnation>) {
        _ = intake.readLanes { lanes in noteSent(by: lanes, of: peers.contains) }
    }

    /// Notes the counts of live senders. Of one that has ended, the count was noted at its end.
    private func noteSent(by lanes: borrowing LaneIntake, of isMeant: (Incarnation) -> Bool) {
        counts.withLock { counts in
            for lane in lanes.all where isMeant(lane.peer) && !lane.isEnding {
                counts.note(sent: lane.sentCount, by: lane.peer)
            }
        }
    }

    private var lanes: [LaneReceiver] { intake.readLanes { $0.all } ?? [] }

    /// The process ids of the peers with lanes.
    var laneSenders: Set<pid_t> { Set(lanes.map(\.sender.pid)) }

    /// The bytes of messages that wait in memory of their own, by the processes that have sent them.
    var waitingMemory: [pid_t: Int] {
        let sizes = intake.readLanes { $0.all.map { ($0.sender.pid, $0.memorySize) } } ?? []
        return Dictionary(sizes, uniquingKeysWith: +)
    }

    /// The peers with lanes.
    var lanePeers: Set<Incarnation> { Set(lanes.map(\.peer)) }

    /// A peer has handed over the memory of a message of its lane.
    func memoryCame(_ number: UInt64, _ descriptor: OwnedDescriptor?, of peer: Incarnation) {
        if descriptor == nil, let lane = lanes(of: peer).last {
            log.warning(
                about: .process(lane.sender.pid), once: "memory",
                """
                \(identity) lost a large message of \(ProcessIdentity(pid: lane.sender.pid)): there was no descriptor left \
                for its memory
                """)
        }
        intake.changeLanes { $0.memoryCame(number, descriptor, of: peer) }
    }
}
