/// The state of a channel without its socket: lifecycle, waiters, credit, drain probe. A plain value: the channel takes
/// its lock, asks this value for a decision, and acts after the lock.
struct SendState {
    enum Lifecycle: Equatable {
        /// No socket.
        case unconnected
        /// A socket to another process that has sent nothing yet. libzmq does not say whether the owner accepts it.
        case connecting
        /// A socket that has sent a message, or a socket to a port of this runtime.
        case connected
        /// Nothing more is sent. The port takes the messages on their way, and ends.
        case finishing
        /// The port is gone.
        case invalid
        /// The runtime has ended.
        case closed
    }

    /// The most bytes in flight, beyond one message; 0: any number.
    private(set) var byteLimit = 0
    /// Whether the port is one of this runtime's.
    let isLocal: Bool
    private(set) var sentCount = 0
    private(set) var lifecycle = Lifecycle.unconnected
    /// The sockets that were given up since the owner has last accepted one.
    private(set) var attempts = 0
    /// The time at which the next of them is given up.
    private(set) var acceptDeadline = MonotonicInstant.distantPast
    /// The number of lost connections.
    private(set) var losses = 0
    /// The number that the owner gave this process, for frames to the owner.
    private(set) var origin: UInt32 = 0
    /// The waiters for room or for a connection, in the order they came. The first one watches the socket.
    private(set) var waiters: [any Waiter] = []
    /// Whether the last attempt found no room. Then only the first waiter touches the socket.
    var isFull = false
    /// Bytes that were sent and that the port has not taken; counted only with a byte limit.
    private(set) var inFlight = 0
    /// Whether the last attempt to send had no credit. The socket does not know about credit.
    private(set) var lacksCredit = false
    /// Whether somebody waits for the port's end. Each new connection to the owner asks for it.
    var isWatched = false
    /// The end of the probing of a finishing port; nil when it is not probed.
    private(set) var probesUntil: MonotonicInstant?
    /// The drain probe that has no answer yet, and how many messages had been sent before it.
    private(set) var drainProbe: (number: UInt64, sentCount: Int)?

    // MARK: Sending

    /// Whether a new sender may try before it becomes a waiter.
    /// - Parameter isLast: Whether the waiters go first.
    func mayTry(isLast: Bool) -> Bool { waiters.isEmpty || !isLast && !isFull }

    /// Whether there is credit for a message. Without a message in flight there always is.
    mutating func takeCredit(_ size: Int) -> Bool {
        lacksCredit = byteLimit > 0 && inFlight > 0 && inFlight + size > byteLimit
        isFull = lacksCredit
        return !isFull
    }

    /// The socket has taken a message.
    mutating func noteSent(_ size: Int) {
        isFull = false
        sentCount += 1
        if byteLimit > 0 { inFlight += size }
        lifecycle = .connected
    }

    /// Whether the owner is known to accept the channel. Only then do senders wait until their own deadlines.
    var isConnected: Bool { isLocal || lifecycle == .connected }

    mutating func add(_ waiter: some Waiter) { waiters.append(waiter) }

    /// - Returns: The waiter to wake: the next one, if the first has left.
    mutating func remove(_ waiter: some Waiter) -> (any Waiter)? {
        guard let index = waiters.firstIndex(where: { $0 === waiter }) else { return nil }
        waiters.remove(at: index)
        return index == 0 ? waiters.first : nil
    }

    func isFirst(_ waiter: some Waiter) -> Bool { waiters.first === waiter }

    /// The port has returned credit.
    /// - Parameter bytes: The size of the messages that the port has taken.
    /// - Returns: The waiter to wake.
    mutating func returnCredit(_ bytes: Int) -> (any Waiter)? {
        inFlight = max(0, inFlight - bytes)
        return lacksCredit ? waiters.first : nil
    }

    // MARK: Connecting

    /// There is a socket to the port, or the owner was asked for a lane.
    mutating func connect(origin: UInt32 = 0, at now: MonotonicInstant = .now) {
        lifecycle = isLocal ? .connected : .connecting
        self.origin = origin
        acceptDeadline = now + acceptPatience
    }

    /// The time for the owner to accept a connection. libzmq neither retries nor reports a connection that a full
    /// backlog has refused, so the sender makes another socket. But a connection may also wait in the backlog of a slow
    /// or stopped owner, which has to accept each further one, too. So the time doubles with each attempt.
    private var acceptPatience: Duration { .milliseconds(100 << min(attempts, 5)) }

    /// The owner has made a lane.
    mutating func connectLane() { if lifecycle == .connecting { (lifecycle, isFull) = (.connected, false) } }

    /// There is no lane any more, and nothing waits in it.
    mutating func closeLane() {
        if lifecycle == .connected || lifecycle == .connecting { (lifecycle, isFull) = (.unconnected, false) }
    }

    /// Gives up a connection that the owner has not accepted in time.
    /// - Returns: Whether to close the socket.
    mutating func retryUnaccepted() -> Bool {
        guard dropUnaccepted() else { return false }
        attempts += 1
        return true
    }

    /// - Returns: Whether to close the socket, which has sent nothing.
    mutating func dropUnaccepted() -> Bool {
        guard lifecycle == .connecting else { return false }
        lifecycle = .unconnected
        return true
    }

    /// Returns all credit, because notices of returned credit may be lost when a control connection ends. Called at the
    /// end of a control connection to the owner, and when there is a new one. For a moment the port may hold twice its
    /// byte limit.
    /// - Returns: The waiter to wake.
    mutating func controlConnectionChanged() -> (any Waiter)? {
        // The answer may be lost.
        drainProbe = nil
        return returnCredit(inFlight)
    }

    /// The connection is lost with the messages on their way, though the port may live.
    /// - Parameter count: The messages that had been sent when the loss was noticed.
    /// - Returns: Whether to close the socket.
    mutating func loseConnection(sentCount count: Int) -> Bool {
        guard lifecycle == .connected, sentCount == count else { return false }
        (lifecycle, isFull, drainProbe, inFlight, attempts) = (.unconnected, false, nil, 0, 0)
        losses += 1
        return true
    }

    // MARK: Closing an idle connection

    enum IdleStep: Equatable {
        case nothing
        /// Close the socket: nothing was sent through it.
        case close
        /// Send a drain probe.
        case probe
        /// A drain probe is under way.
        case wait
    }

    /// The next step to close an idle connection. A socket is closed only when the port has taken everything: otherwise
    /// messages could be lost, or overtaken by those of the next socket.
    mutating func closeIfIdle() -> IdleStep {
        // Waiters for a finishing port send nothing more.
        guard waiters.isEmpty || lifecycle == .finishing else { return .nothing }
        if dropUnaccepted() { return .close }
        guard mayHaveSent else { return .nothing }
        return drainProbe?.sentCount == sentCount ? .wait : .probe
    }

    mutating func noteProbe(_ number: UInt64) { drainProbe = (number, sentCount) }

    /// The port has answered a probe, so it has taken everything before the probe.
    /// - Returns: Whether to close the socket.
    mutating func drained(_ number: UInt64) -> Bool {
        guard mayHaveSent, waiters.isEmpty || lifecycle == .finishing, let probe = drainProbe,
            probe == (number, sentCount)
        else { return false }
        drainProbe = nil
        if lifecycle == .connected { (lifecycle, attempts) = (.unconnected, 0) }
        return true
    }

    /// Whether a socket, if there is one, has sent something.
    var mayHaveSent: Bool { lifecycle == .connected || lifecycle == .finishing }

    // MARK: The end

    /// Sends nothing more to a port that is about to end.
    /// - Parameter deadline: The end of the probing.
    /// - Returns: Whether the probing begins with this call, and the waiters to wake.
    mutating func finish(probingUntil deadline: MonotonicInstant) -> (isFirst: Bool, waiters: [any Waiter]) {
        defer { probesUntil = deadline }
        if lifecycle != .invalid, lifecycle != .closed { lifecycle = .finishing }
        return (probesUntil == nil, waiters)
    }

    /// Whether another drain probe may be sent to a port that finishes.
    mutating func mayProbe() -> Bool {
        if lifecycle != .finishing || probesUntil?.hasPassed != false { probesUntil = nil }
        return probesUntil != nil
    }

    /// Ends sending, for good.
    /// - Returns: The waiters to wake.
    mutating func end(_ end: Lifecycle) -> [any Waiter] {
        if lifecycle != .closed, lifecycle != .invalid || end == .closed { lifecycle = end }
        return waiters
    }

    /// Throws when sending has ended.
    func check(_ invalid: @autoclosure () -> PortError) throws(PortError) {
        switch lifecycle {
        case .unconnected, .connecting, .connected: return
        case .finishing:
            let error = invalid()
            throw error.port.map { .refused(port: $0) } ?? error
        case .invalid: throw invalid()
        case .closed: throw .isEnding
        }
    }
}
