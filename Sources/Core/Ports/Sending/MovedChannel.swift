import RunLoops
import Synchronization

// A channel to a port that moves to another process. Senders wait while it moves. Then the port has another channel, to
// which this one leads.

extension SendChannel {
    /// The channel to the port's present home, as far as this process knows.
    var latest: SendChannel {
        guard hasMoved.load(ordering: .acquiring), let next = successor.withLock({ $0 }) else { return self }
        guard next.hasMoved.load(ordering: .acquiring) else { return next }
        var last = next
        while last.hasMoved.load(ordering: .acquiring), let next = last.successor.withLock({ $0 }) { last = next }
        let latest = last
        // Released after the lock. It would not tell this one of the end any more.
        let former = successor.withLock { exchange(&$0, with: latest) }
        if former !== latest {
            _ = latest.onEnd { [weak self] in self?.invalidated.set(()) }
            follow(latest)
        }
        return latest
    }

    /// Lets this channel lead on when the next one's port moves, too. A right that nobody uses keeps no channel but the last.
    private func follow(_ next: SendChannel) {
        channels.addFollower(self, of: next.id)
        // The other thread may have called all by then.
        if next.hasMoved.load(ordering: .acquiring) { _ = latest }
    }

    /// Whether the port is about to move, or has moved.
    var isOnTheMove: Bool { state.withLock { $0.queue.isOnTheMove } }

    /// The owner says that the port is about to move. Called on the housekeeping thread.
    func waitForMove() {
        let begins = state.withLock { $0.waitForMove(probingUntil: .now + Self.probingTime) }
        if let begins { reportFinished(probes: begins) } else { tellFinished() }
    }

    /// A control connection to the owner has begun. The owner may have missed that the port has everything, and this process
    /// that the port stays.
    func askWhetherPortMoves() { if isOnTheMove, !hasMoved.load(ordering: .acquiring) { waitForMove() } }

    /// The owner says that the port has not moved.
    func stay() { state.withLock { $0.stay() }?.wake() }

    /// Lets the senders to a port of this runtime wait, because it is about to move.
    func waitForOwnMove() {
        state.withLock { state in
            _ = state.queue.waitForMove()
            localQueue?.refuse()
        }
    }

    /// The port of this runtime has not moved.
    func stayHere() {
        let waiters = state.withLock { state in
            _ = state.queue.stay(isConnected: true)
            if state.bell != nil { localQueue?.open() }
            return state.queue.waiters
        }
        for waiter in waiters { waiter.wake() }
    }

    /// The port has moved.
    func move(to next: SendChannel) {
        let waiters = state.withLock { state in
            localQueue?.refuse()
            let waiters = state.move()
            // Under the lock, because a sender that finds the port moved goes on at the next channel.
            if waiters != nil {
                successor.withLock { $0 = next }
                hasMoved.store(true, ordering: .releasing)
            }
            return waiters
        }
        guard let waiters else { return }
        log.debug("\(identity) has moved to \(next.id.incarnation.shortDescription)")
        channels.connections.remove(self)
        // The next channel must not keep this one.
        if next.onEnd({ [weak self] in self?.invalidated.set(()) }), isLocal || isWatched { next.watch() }
        follow(next)
        for follower in channels.takeFollowers(of: id) { _ = follower.object?.latest }
        for waiter in waiters { waiter.wake() }
        channels.control.events?.portLeft(id, isTold: false)
    }

    /// Calls the handler at the port's end, also when it is over, without asking its owner to report it.
    /// - Returns: Whether the port had not ended.
    private func onEnd(_ handler: @escaping @Sendable () -> Void) -> Bool {
        invalidated.whenSet { handler() }
        return invalidated.value == nil
    }

    /// The owner does not have the port any more: follows the port to its new home, or ends with it.
    func leftOwner() {
        if hasMoved.load(ordering: .acquiring) {
            // Askers ask the owner also after the move.
            channels.control.events?.portLeft(id, isTold: true)
        } else {
            followOrEnd(ownerDied: false)
        }
    }

    /// The owner has ended. The requests that it had taken have no answer.
    func ownerDied() {
        if hasMoved.load(ordering: .acquiring) {
            channels.control.events?.channelBecameInvalid(id)
        } else {
            followOrEnd(ownerDied: true)
        }
    }

    /// The port of this runtime goes back to its lender. The rights of this process follow it.
    func returns(in directory: String) { followOrEnd(ownerDied: false, in: directory) }

    private func followOrEnd(ownerDied: Bool, in directory: String? = nil) {
        let path = directory ?? path
        do throws(PortError) {
            let events = channels.control.events
            var next = try events?.nextHome(of: publicID, after: id, in: path, ownerDied: ownerDied)
            // A home in this process may have ended before this channel has heard of it.
            if case .moved(let home)? = next, channels.hasEndedHere(home) {
                next = try events?.nextHome(of: publicID, after: home, in: path, ownerDied: false)
            }
            switch next {
            case .lender(let home)? where home.incarnation == channels.incarnation:
                // The port that comes back moves this channel.
                if try channels.control.events?.comesBack(home.number, from: id) != true { return invalidate() }
            case .moved(let home)?, .lender(let home)?: channels.move(self, to: home, in: path)
            case nil: return invalidate()
            }
            if ownerDied {
                channels.control.events?.channelBecameInvalid(id)
            } else if !isLocal {
                channels.control.events?.portLeft(id, isTold: true)
            }
            if isLocal, hasMoved.load(ordering: .acquiring) { channels.control.events?.ownPortHasMoved(id.number) }
        } catch {
            // No descriptor is left. The port may live.
            channels.housekeeping.perform(after: .milliseconds(100)) { [weak self] in
                guard let self, isValid || directory != nil, !hasMoved.load(ordering: .acquiring) else { return }
                followOrEnd(ownerDied: ownerDied, in: directory)
            }
        }
    }
}

// A message whose port has moved before it was sent.
extension OutgoingMessage {
    /// Makes the form of the message that the channel takes.
    mutating func readdress(to channel: SendChannel) throws(PortError) {
        if let request { channel.channels.control.events?.requestReaddressed(request, to: channel.id) }
        switch consume self {
        case .local(let message, let descriptors):
            if channel.isLocal {
                self = .local(message, descriptors)
                return
            }
            do throws(PortError) {
                self = .frame(OutgoingFrame(try channel.frame(of: message), descriptors))
            } catch {
                self = .local(message, descriptors)
                throw error
            }
        case .frame(let outgoing):
            if channel.isLocal, let message = LocalMessage(outgoing, channel.channels) {
                self = .local(message, outgoing.descriptors)
            } else {
                self = .frame(outgoing)
            }
        }
    }

    /// The number of a request; nil for another message.
    private var request: UInt64? {
        switch self {
        case .local(let message, _): message.header.kind == .request ? message.header.request : nil
        case .frame(let outgoing):
            outgoing.frame.withUnsafeBytes { bytes in
                (try? FrameHeader(checking: bytes)).flatMap { $0.kind == .request ? $0.request : nil }
            }
        }
    }
}

extension LocalMessage {
    /// Reads a frame of this runtime.
    init?(_ outgoing: borrowing OutgoingFrame, _ channels: ChannelTable) {
        var descriptors = outgoing.descriptors?[...] ?? []
        let made = outgoing.frame.withUnsafeBytes { bytes -> LocalMessage? in
            guard let header = try? FrameHeader(checking: bytes) else { return nil }
            func channel(_ range: Range<Int>) -> SendChannel? {
                let right = try? WireRight(checking: UnsafeRawBufferPointer(rebasing: bytes[range]))
                return right.map { channels.channel(to: $0) }
            }
            var components: [Component] = []
            header.forEachPart(in: bytes) { part in
                switch part {
                case .bytes(let range): components.append(.bytes(Array(bytes[range])))
                case .right(let range): if let port = channel(range) { components.append(.port(port)) }
                case .receiveRight(let range): if let port = channel(range) { components.append(.offer(port)) }
                case .descriptor: if let next = descriptors.popFirst() { components.append(.descriptor(next)) }
                }
            }
            let reply = header.replySize > 0 ? channel(header.replyOffset..<header.componentsOffset) : nil
            return LocalMessage(
                kind: header.kind, id: header.id, request: header.request, components: components, replyRight: reply,
                size: UInt32(clamping: bytes.count))
        }
        guard let made else { return nil }
        self = made
    }
}
