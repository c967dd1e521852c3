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
        var newBells: BellSet?
        let isAdded = state.withLock { state -> Bool in
            // A process of this library asks again only when its former lane has ended, or is empty.
            state.arrivals.lanes.endWhenEmpty(of: peer.incarnation)
            guard state.arrivals.lanes.lane(of: peer.incarnation) == nil, state.lifecycle.isOpen,
                state.exposedIn != nil, state.addLane(lane)
            else { return false }
            if state.bellSource == nil { newBells = state.arrivals.lanes.bells }
            return true
        }
        guard isAdded else { return false }
        hasLanes.store(true, ordering: .relaxed)
        if let newBells {
            beginHearing(newBells)
            // They wait for the socket's descriptor alone.
            wakeWaiters()
        }
        // Not by the outbox: a peer that reads nothing would get two descriptors of this process for each question, and the
        // kernel may refuse descriptors for as long as many are on their way.
        if peer.sendAtOnce(.lane(id.number, question: question), [descriptor, other]) { return true }
        state.withLock { $0.arrivals.lanes.remove(lane) }
        return false
    }

    /// A peer is gone, or sends no more by its lane. The messages that it has sent are taken first.
    /// - Parameters:
    ///   - question: The number of one lane's question; nil for all lanes.
    ///   - isGone: Whether the last connection to the peer has ended.
    func endLanes(of peer: Incarnation, question: UInt64? = nil, isGone: Bool = false) {
        guard hasLanes.load(ordering: .relaxed) else { return }
        changeLanes { state in
            guard state.lifecycle.isOpen else { return }
            for lane in state.arrivals.lanes.all where lane.peer == peer {
                state.noteSent(by: lane)
                if isGone { lane.loseMemories() }
            }
            state.arrivals.lanes.endWhenEmpty(of: peer, question: question)
        }
    }

    /// Takes what waits in a peer's lane, and handles it, because the news of an end has come, which the messages precede.
    /// Called on the housekeeping thread.
    /// - Returns: False when the peer has no lane.
    @discardableResult
    func takeLane(of peer: Incarnation) -> Bool {
        guard hasLanes.load(ordering: .relaxed),
            let (lane, end) = state.withLock({ state in
                state.arrivals.lanes.lane(of: peer).map { ($0, $0.takenCount &+ UInt32($0.waitingCount)) }
            })
        else { return false }
        guard (try? beginTurn()) != nil else { return true }
        defer { endTurn() }
        var used = LocalQueue.Batch()
        defer { channel.localQueue?.reuse(&used) }
        while state.withLock({ _ in lane.hasRecord && Int32(bitPattern: lane.takenCount &- end) < 0 }),
            var delivery = take()
        {
            if delivery.isFirst { tellOthers() }
            delivery.handle(&used, inHand)
        }
        return true
    }

    /// The peers whose lanes tell how much they have sent.
    func noteSentByLanes(of peers: Set<Incarnation>) {
        guard hasLanes.load(ordering: .relaxed) else { return }
        state.withLock { state in
            for lane in state.arrivals.lanes.all where peers.contains(lane.peer) {
                state.noteSent(by: lane)
            }
        }
    }

    private var lanes: [LaneReceiver] {
        hasLanes.load(ordering: .relaxed) ? state.withLock { $0.arrivals.lanes.all } : []
    }

    /// The process ids of the peers with lanes.
    var laneSenders: Set<pid_t> { Set(lanes.map(\.sender.pid)) }

    /// The peers with lanes.
    var lanePeers: Set<Incarnation> { Set(lanes.map(\.peer)) }

    /// A peer has handed over the memory of a message of its lane.
    func memoryCame(_ number: UInt64, _ descriptor: OwnedDescriptor?, of peer: Incarnation) {
        if descriptor == nil {
            log.warning("\(identity) lost a large message: there was no descriptor left for its memory")
        }
        changeLanes { $0.arrivals.lanes.memoryCame(number, descriptor, of: peer) }
    }

    /// Looks again at lanes whose messages got no memory. Called some time later.
    func retryLanes() { changeLanes { $0.arrivals.lanes.openBlocked() } }

    /// Changes lanes, and tells the takers when an open lane has a record then, which no bell reports.
    private func changeLanes(_ change: (inout ReceiverState) -> Void) {
        let hasMore = state.withLock { state in
            change(&state)
            guard state.lifecycle.isOpen, state.arrivals.lanes.hasRecords else { return false }
            state.mayHaveMore = true
            return true
        }
        if hasMore { tellOthers() }
    }
}

extension ReceiverState {
    /// Notes the count of a live sender. Of one that has ended, the count was noted at its end.
    mutating func noteSent(by lane: LaneReceiver) {
        if !lane.isEnding { counts.note(sent: lane.sentCount, by: lane.peer) }
    }

    /// - Returns: False when no descriptor is left.
    mutating func addLane(_ lane: LaneReceiver) -> Bool {
        guard arrivals.lanes.add(lane) else { return false }
        guard both == nil, let bells = arrivals.lanes.bells else { return true }
        let services = waiters.compactMap { $0 as? PollService }
        do {
            let made = try DescriptorSet()
            if let own = try socket?.watchedDescriptor() { try made.add(own) }
            try made.add(bells.descriptor)
            for service in services { try service.add(bells) }
            both = made
            return true
        } catch {
            arrivals.lanes.remove(lane)
            return false
        }
    }
}
