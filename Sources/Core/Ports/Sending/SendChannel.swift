import Glibc
import RunLoopLocks
import RunLoops
import Synchronization

/// This runtime's way to one port: one socket, shared by all rights to the port and all threads that use them.
final class SendChannel: Sendable {
    /// The right by which this channel reaches the port, with the number that the port has at its home.
    let right: WireRight
    /// The identity of the port, which stays when the port moves: the first number of the port.
    let publicID: PortID
    /// Whether messages may be sent without a check of credit, and without a line in the log.
    let hasShortWay: Bool
    /// The messages to a port of this runtime; nil for a port of another process.
    let localQueue: LocalQueue?
    let channels: ChannelTable

    let state: Lock<ChannelState>
    /// The known facts about the port besides its id. They have a lock of their own, because errors are made under the
    /// other.
    let known = Lock<PortIdentity?>(nil)
    let invalidated = Promise<Void>()
    let sentBefore: Int
    /// Whether the port has moved, and has another channel: the successor.
    let hasMoved = Atomic(false)
    let successor = Lock<SendChannel?>(nil)

    /// - Parameters:
    ///   - publicID: The identity of a port that has moved; nil for another port.
    ///   - sentCount: The messages that a former channel has sent to the port.
    init(
        _ right: WireRight, of publicID: PortID? = nil, in channels: ChannelTable, localQueue: LocalQueue? = nil,
        sentCount: Int = 0
    ) {
        self.right = right
        self.publicID = publicID ?? right.id
        hasShortWay = right.byteLimit == 0 && !Log.tellsMessages
        self.localQueue = localQueue
        self.channels = channels
        sentBefore = sentCount
        state = Lock(
            ChannelState(isLocal: localQueue != nil, byteLimit: right.byteLimit, sentCount: sentCount))
    }

    /// A channel to a port that is gone.
    static func invalid(_ right: WireRight, in channels: ChannelTable) -> SendChannel {
        let channel = SendChannel(right, in: channels)
        channel.end(.invalid)
        channel.invalidated.set(())
        return channel
    }

    deinit { channels.remove(id, of: publicID, sent: Fork.isChild ? 0 : ownSentCount) }

    /// The port at its home. Control packets and the registry name it so.
    var id: PortID { right.id }
    /// The owner's registry directory; empty for a port of this runtime.
    var path: String { right.path }
    /// Whether the port is one of this runtime's.
    var isLocal: Bool { localQueue != nil }

    /// The right for other processes. A port of this runtime is exposed first.
    func exposedRight() throws(PortError) -> WireRight {
        if hasMoved.load(ordering: .acquiring) { return try latest.exposedRight() }
        var right = right
        if isLocal, let port = localPort { right.path = try port.expose() }
        right.id = publicID
        return right
    }

    /// Nil for a port of another process.
    var localPort: (any LocalPort)? {
        get { state.withLock { $0.localPort } }
        set { state.withLock { $0.localPort = newValue } }
    }

    /// The messages that were sent to the port.
    var sentCount: Int { localQueue?.sentCount ?? state.withLock { $0.queue.sentCount } }

    let posted = Lock(PostedMessages())

    /// Whether messages to another process wait for room without a sender. The exit waits for them.
    var mustFlush: Bool { !isLocal && posted.withLock { $0.count } > 0 }

    /// The messages that were sent to the port, or wait for room without a sender.
    var acceptedCount: Int { posted.withLock { $0.count } + sentCount }

    // MARK: Sending

    /// Sends the message. After an error the message stays the caller's.
    func send(_ message: inout OutgoingMessage, before deadline: MonotonicInstant) throws(PortError) {
        if try sendAtOnce(&message, before: deadline) { return }
        if !hasMoved.load(ordering: .acquiring), try waitToSend(&message, before: deadline) { return }
        // Read once: the port may move again meanwhile, and the message has the form for one channel.
        let next = latest
        try message.readdress(to: next)
        try next.send(&message, before: deadline)
    }

    /// Sends a frame if there is a connection with room. The short way of most frames.
    func sendNow(_ frame: inout Frame) -> Bool {
        guard hasShortWay else { return false }
        return state.withLock { state in
            guard !state.ring.isOpen, state.queue.lifecycle == .connected, state.queue.mayTry(isLast: false),
                state.zeroMQ.sendNow(&frame)
            else { return false }
            state.queue.noteSent()
            return true
        }
    }

    /// Sends a message of one component of bytes to a port of this runtime.
    func send(
        id: UInt32, bytes: RawSpan, replyRight: SendChannel?, before deadline: MonotonicInstant
    ) throws(PortError) {
        let header = FrameHeader(count: 1, replySize: replyRight?.right.size ?? 0)
        let size = try check(size: header.componentsOffset + bytes.byteCount)
        // No reference to the queue, which would cost a retain and a release.
        if hasShortWay, let outcome = localQueue?.send(id: id, bytes: bytes, replyRight: replyRight, size: size),
            noteOutcome(outcome)
        {
            return
        }
        guard let localQueue else { return }
        let message = LocalMessage(id: id, bytes: bytes, replyRight: replyRight, size: size, from: localQueue.pool)
        var outgoing = OutgoingMessage.local(message, nil)
        try send(&outgoing, before: deadline)
    }

    /// - Returns: The size of a message that the port takes.
    @discardableResult
    func check(size: Int) throws(PortError) -> UInt32 {
        let limit = min(right.limit, Wire.largestMessage)
        guard size <= limit else { throw .messageTooLarge(port: identity, size: size, limit: limit) }
        return UInt32(truncatingIfNeeded: size)
    }

    /// - Parameter isLast: Whether the waiters go first: an earlier message of the same thread may be one of them.
    /// - Returns: False when the message has to wait.
    func sendAtOnce(
        _ message: inout OutgoingMessage, before deadline: MonotonicInstant, isLast: Bool = false
    ) throws(PortError) -> Bool {
        try Fork.check()
        switch message {
        case .frame: break
        case .local(let message, let descriptors):
            // No lock is taken. A sender needs the lock only to connect, to wait, for credit, or to learn why it cannot
            // send.
            if hasShortWay, let localQueue, !localQueue.isHeld, noteOutcome(localQueue.push(message)) {
                descriptors?.noteSent()
                return true
            }
        }
        let isSent = try state.withLock { (state) throws(PortError) -> Bool? in
            try state.queue.check(.isInvalid(port: identity))
            if state.queue.isOnTheMove { return state.queue.lifecycle == .moving && deadline.hasPassed ? nil : false }
            if state.queue.mayTry(isLast: isLast), try trySend(&message, &state) { return true }
            return state.isConnected && deadline.hasPassed ? nil : false
        }
        guard let isSent else {
            throw dropLostConnection() ? .connectionLost(port: identity) : .sendTimedOut(port: identity)
        }
        if !isSent { logWait(message) }
        return isSent
    }

    /// Sends if there is a way with room.
    func trySend(_ message: inout OutgoingMessage, _ state: inout ChannelState) throws(PortError) -> Bool {
        try connectBell(&state)
        let size = right.byteLimit == 0 || state.ring.isOpen ? 0 : message.size
        let text = hasShortWay || !Log.tellsMessages ? nil : message.text
        guard state.ring.isOpen || state.credit.allows(size), try carry(&message, &state) else {
            state.queue.isFull = true
            return false
        }
        state.credit.use(size)
        state.queue.noteSent()
        if let text { logSent(text) }
        return true
    }

    /// - Returns: False without room, or without a way.
    private func carry(_ message: inout OutgoingMessage, _ state: inout ChannelState) throws(PortError) -> Bool {
        switch consume message {
        case .local(let local, let descriptors):
            message = .local(local, descriptors)
            assert(isLocal, "the message has the form for a port of this runtime")
            let outcome = localQueue?.push(local)
            if outcome == .opened { state.bell?.ring(channels.mark) }
            let isSent = outcome == .queued || outcome == .opened
            if isSent { descriptors?.noteSent() }
            return isSent
        case .frame(var outgoing):
            assert(!isLocal, "the message has the form for a port of another process")
            let isSent = send(&outgoing, &state)
            message = .frame(outgoing)
            return try isSent.get()
        }
    }

    /// - Returns: False without room, or without a way.
    private func send(_ outgoing: inout OutgoingFrame, _ state: inout ChannelState) -> Result<Bool, PortError> {
        guard let descriptors = outgoing.descriptors else {
            let isSent = send(&outgoing.frame, &state)
            if outgoing.wantsWay, case .success(true) = isSent { askForUnusedWay(&state) }
            return isSent
        }
        let isSent = send(&outgoing.frame, descriptors, &state)
        guard outgoing.canCopy, isSent.isHindered(by: state.descriptors.obstacle) else { return isSent }
        state.descriptors.obstacle = .none
        return outgoing.useCopy().flatMap { send(&outgoing.frame, &state) }
    }

    /// - Returns: False without room, or without a way.
    func send(_ frame: inout Frame, _ state: inout ChannelState) -> Result<Bool, PortError> {
        if state.ring.isOpen { return .success(sendByRing(frame, &state)) }
        return state.zeroMQ.send(&frame, tellsOrigin: right.byteLimit > 0)
    }

    // MARK: Inside the runtime

    /// - Returns: Whether the message was sent.
    @inline(__always)
    private func noteOutcome(_ outcome: LocalQueue.Outcome) -> Bool { outcome == .queued || noteChange(outcome) }

    /// The list was opened, or the message is not on it.
    /// - Returns: Whether the message was sent.
    @inline(never)
    private func noteChange(_ outcome: LocalQueue.Outcome) -> Bool {
        switch outcome {
        case .queued: return true
        case .opened:
            state.withLock { $0.bell?.ring(channels.mark) }
            return true
        case .full: return false
        case .refused:
            // The message was counted for a moment, in which another sender may have found the queue full.
            roomWasMade()
            return false
        }
    }

    /// Connects the bell before the first message, because the connection by itself makes the port's descriptor
    /// readable.
    func connectBell() throws(PortError) { try state.withLock { (state) throws(PortError) in try connectBell(&state) } }

    private func connectBell(_ state: inout ChannelState) throws(PortError) {
        guard let localQueue, state.bell == nil else { return }
        state.bell = try channels.sockets.makeBell(of: id)
        // The list of a port that moves opens when the port stays.
        guard state.queue.lifecycle == .unconnected || state.queue.lifecycle == .connected else { return }
        state.queue.connect()
        localQueue.open()
    }

    /// Gives up the bell of a port that is gone.
    func takeBell() -> OwnBell? { state.withLock { $0.bell.take() } }

    /// Returns when no bell is being connected.
    func waitForBell() { state.withLock { _ in } }

    // MARK: The control connection

    func controlConnectionChanged() {
        let waiter = state.withLock { state in
            let waiter = state.controlConnectionChanged()
            // The owner may have forgotten it with the former connection.
            if state.zeroMQ.isOpen { tellZeroMQ(isOpen: true) }
            return waiter
        }
        waiter?.wake()
    }

    /// Tells the owner whether this channel has a socket of ZeroMQ. Called under the lock, so that no question for a ring
    /// comes first that is asked later.
    func tellZeroMQ(isOpen: Bool) {
        channels.control.existing(id.incarnation)?.send(.zeroMQ(id.number, isOpen: isOpen))
    }

    // MARK: Requests

    /// Tells the process at the other end about a request.
    func tell(_ news: ControlMessage) {
        if isLocal {
            channels.control.events?.received(news, from: channels.incarnation)
        } else {
            channels.control.send(news, to: id.incarnation)
        }
    }
}

extension Result<Bool, PortError> {
    /// Whether a message with descriptors is not sent, though there may be room for one without.
    fileprivate func isHindered(by obstacle: DescriptorSender.Obstacle) -> Bool {
        if case .failure = self { true } else { obstacle != .none }
    }
}

// The known facts about a channel's port, for texts.

extension SendChannel {
    /// The port in texts.
    var identity: PortIdentity { known.withLockUnlessForked { current(&$0) } ?? PortIdentity(publicID) }

    func note(name: String) {
        known.withLock { $0 = PortIdentity(publicID, name: name, owner: current(&$0).owner) }
        log.debug("port \(id.number) of \(identity.ownerText) is \(identity)")
    }
    func note(owner: ProcessIdentity) { known.withLock { $0 = PortIdentity(publicID, name: $0?.name, owner: owner) } }

    /// Made at the first use, because most ports need none.
    private func current(_ known: inout PortIdentity?) -> PortIdentity {
        let identity = known ?? PortIdentity(publicID, owner: isLocal ? .own : nil)
        known = identity
        return identity
    }
}
