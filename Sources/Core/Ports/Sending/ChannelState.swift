import RunLoops

/// The state of a channel, which its lock guards: who sends, and the way to the port. A channel to a port of another process
/// has a ring or a connection of ZeroMQ, never both.
struct ChannelState: ~Copyable {
    var queue: SendState
    var ring = RingConnection()
    var zeroMQ = ZeroMQConnection()
    var descriptors = DescriptorSender()
    var credit: Credit
    /// Wakes the takers of a port of this runtime.
    var bell: OwnBell?
    weak var localPort: (any LocalPort)?
    /// The time of the last check of the owner and the connection by a sender without time left.
    private var lastLook = MonotonicInstant.distantPast
    /// The end of the probing of a port that finishes or moves; nil when it is not probed.
    private var probesUntil: MonotonicInstant?

    init(isLocal: Bool, byteLimit: Int = 0, sentCount: Int = 0) {
        queue = SendState(isLocal: isLocal, sentCount: sentCount)
        credit = Credit(limit: byteLimit)
    }

    /// Whether there is a way to a port of another process.
    var isOpen: Bool { ring.isOpen || zeroMQ.isOpen }

    /// Whether senders wait until their own deadlines: the owner is known to accept what they send.
    var isConnected: Bool { queue.isConnected && !descriptors.isAsked }

    // MARK: Waiting

    /// A waiter has waited for a while. Closes a socket that the owner has not accepted in time.
    /// - Parameters:
    ///   - limit: Its deadline, on a connection or without one.
    /// - Returns: Whether there is a connection, whether the deadline has passed, and whether the waiter has to look after the
    ///   owner and the connection.
    mutating func pause(
        of waiter: some Waiter, until limit: (_ isConnected: Bool) -> MonotonicInstant
    ) -> (isConnected: Bool, isOver: Bool, looks: Bool) {
        let now = MonotonicInstant.now
        let isOver = limit(isConnected) <= now
        if !isOver, !ring.isAsked, queue.isFirst(waiter) { retryUnaccepted() }
        // When many deadlines pass together, one check suffices.
        let looks = !isOver || lastLook + .milliseconds(100) < now
        if looks { lastLook = now }
        return (isConnected, isOver, looks)
    }

    /// Gives up a socket that the owner has not accepted in time.
    mutating func retryUnaccepted() {
        guard queue.lifecycle == .connecting else { return }
        queue.disconnect()
        zeroMQ.giveUp()
    }

    /// A control connection to the owner has begun or ended.
    /// - Returns: The waiter to wake.
    mutating func controlConnectionChanged() -> (any Waiter)? {
        // The answer may be lost.
        _ = giveUpAsking()
        descriptors.giveUpAsking()
        zeroMQ.loseAnswer()
        credit.giveBackAll()
        // The messages on their way by ZeroMQ have to arrive before the port moves, and before those of another way. The
        // owner says on the next connection what becomes of the port.
        return queue.lifecycle == .moving ? nil : queue.waiters.first
    }

    // MARK: Asking for a ring

    /// - Returns: Whether a ring is awaited, and the number of the question to send, if there is one.
    mutating func askForRing() -> (isAsked: Bool, question: UInt64?) {
        if ring.isRefused { return (false, nil) }
        guard queue.lifecycle == .unconnected else { return (true, nil) }
        queue.connect()
        return (true, ring.ask())
    }

    /// - Returns: Whether an answer was awaited.
    mutating func giveUpAsking() -> Bool {
        guard ring.giveUpAsking() else { return false }
        queue.disconnect()
        return true
    }

    /// The owner has answered the question for a ring.
    /// - Parameter made: Nil when the owner makes none, or this process cannot map it.
    /// - Returns: Whether the ring is used, and the waiter to wake.
    mutating func answer(_ question: UInt64, with made: consuming RingSender?) -> (isUsed: Bool, waiter: (any Waiter)?)
    {
        guard ring.giveUpAsking(question), queue.lifecycle == .connecting else { return (false, nil) }
        if let made {
            ring.open(made)
            queue.accept()
            return (true, queue.waiters.first)
        }
        ring.refuse()
        queue.disconnect()
        return (false, queue.waiters.first)
    }

    // MARK: Losing

    /// The connection of ZeroMQ is lost with the messages on their way.
    /// - Parameters:
    ///   - since: The time since which it was missed.
    ///   - count: The messages that had been sent when the loss was noticed.
    /// - Returns: The waiters to wake; nil when something was sent since, or there is another connection.
    mutating func loseConnection(missedSince since: MonotonicInstant?, sentCount count: Int) -> [any Waiter]? {
        guard queue.lifecycle == .connected, queue.sentCount == count, zeroMQ.lose(missedSince: since) else {
            return nil
        }
        queue.disconnect()
        credit.giveBackAll()
        descriptors.forgetInFlight()
        return queue.waiters
    }

    /// The receiver has ended the ring. Nothing is lost, and the next send connects again.
    mutating func loseRing() { if ring.close() { queue.disconnect() } }

    // MARK: Closing an idle connection

    enum IdleStep: Equatable {
        case nothing
        case closed
        /// The ring was closed, and its owner does not know yet.
        case closedRing
        /// A drain probe was sent.
        case probed
        /// There is no room for a probe, or no answer to one: the connection may be lost.
        case waits(isProbed: Bool)
    }

    /// Closes an idle connection, or asks the port whether it has taken everything. Otherwise messages could be lost, or
    /// overtaken by those of the next connection. A ring tells by itself.
    mutating func closeIfIdle() -> IdleStep {
        guard queue.isIdle else { return .nothing }
        if ring.isOpen { return queue.waiters.isEmpty && closeDrainedRing() ? .closedRing : .nothing }
        if queue.lifecycle == .connecting {
            // Nothing was sent.
            guard !ring.isAsked else { return .nothing }
            queue.disconnect()
            zeroMQ.close()
            return .closed
        }
        guard queue.mayHaveSent else { return .nothing }
        if zeroMQ.isProbed(sentCount: queue.sentCount) { return .waits(isProbed: true) }
        return zeroMQ.probe(sentCount: queue.sentCount) ? .probed : .waits(isProbed: false)
    }

    /// Closes the ring, if everything was taken from it.
    /// - Returns: Whether the ring is closed.
    mutating func closeDrainedRing() -> Bool {
        guard ring.isDrained(), ring.close() else { return false }
        queue.disconnect()
        return true
    }

    /// The port has answered a drain probe.
    /// - Returns: Whether the socket was closed, because the port has taken everything.
    mutating func drained(_ number: UInt64) -> Bool {
        guard queue.mayHaveSent, zeroMQ.drained(number, sentCount: queue.sentCount, isIdle: queue.isIdle) else {
            return false
        }
        queue.disconnect()
        return true
    }

    // MARK: The end

    /// Sends nothing more to a port that is about to end.
    /// - Parameter deadline: The end of the probing.
    /// - Returns: Whether probing begins with this call, and the waiters to wake.
    mutating func finish(probingUntil deadline: MonotonicInstant) -> (isFirst: Bool, waiters: [any Waiter]) {
        (beginProbing(until: deadline), queue.finish())
    }

    /// - Returns: Whether nobody probes yet.
    private mutating func beginProbing(until deadline: MonotonicInstant) -> Bool {
        // A socket that has sent nothing is closed.
        if queue.lifecycle == .connecting {
            zeroMQ.close()
            _ = ring.giveUpAsking()
        }
        defer { probesUntil = deadline }
        return probesUntil == nil
    }

    /// Whether another drain probe may be sent to a port that finishes or moves.
    mutating func mayProbe() -> Bool {
        if !queue.carriesNoMore || probesUntil?.hasPassed != false { probesUntil = nil }
        return probesUntil != nil
    }

    /// Nobody probes any more, because there is no socket.
    mutating func endProbing() { probesUntil = nil }

    /// Whether the probing has begun, and no call of ``mayProbe()`` has found its end.
    var isProbing: Bool { probesUntil != nil }

    // MARK: Moving

    /// Sends nothing more to a port that is about to move.
    /// - Parameter deadline: The end of the probing.
    /// - Returns: Whether probing begins with this call; nil when sending has ended.
    mutating func waitForMove(probingUntil deadline: MonotonicInstant) -> Bool? {
        let begins = beginProbing(until: deadline)
        return queue.waitForMove() ? begins : nil
    }

    /// The port has not moved. The next send connects again.
    /// - Returns: The waiter to wake.
    mutating func stay() -> (any Waiter)? {
        // A question for a ring, or for a way of descriptors, has no answer while the port moves.
        let wasAsked = giveUpAsking()
        let awaitsSocket = descriptors.isAsked
        descriptors.giveUpAsking()
        // A socket that has not been drained goes on, because another way would overtake its messages.
        let isConnected = zeroMQ.isOpen
        guard queue.stay(isConnected: isConnected) || wasAsked else { return awaitsSocket ? queue.waiters.first : nil }
        if !isConnected { closeWays() }
        credit.giveBackAll()
        return queue.waiters.first
    }

    /// The port has moved.
    /// - Returns: The waiters to wake; nil when sending has ended.
    mutating func move() -> [any Waiter]? {
        guard let waiters = queue.move() else { return nil }
        closeWays()
        return waiters
    }

    private mutating func closeWays() {
        zeroMQ.close()
        ring.close()
        descriptors.close()
    }

    /// Ends sending, for good.
    /// - Returns: The waiters to wake.
    mutating func end(_ end: SendState.Lifecycle) -> [any Waiter] {
        // The bell ends with the port's own socket, and the messages on their way go on until ``close(linger:)``.
        if end != .closed { closeWays() }
        return queue.end(end)
    }

    /// - Parameter milliseconds: libzmq may use them to flush.
    mutating func close(linger milliseconds: Int32) {
        zeroMQ.close(linger: milliseconds)
        ring.close()
        descriptors.close()
        bell = nil
    }
}
