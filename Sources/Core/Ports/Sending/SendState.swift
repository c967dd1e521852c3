/// The state of a channel without its carrier: lifecycle, waiters, count. A plain value: the channel takes its lock, asks
/// this value for a decision, and acts after the lock.
struct SendState {
    enum Lifecycle: Equatable {
        /// No way to the port.
        case unconnected
        /// A socket to another process that has sent nothing yet, or a question for a ring. libzmq does not say whether the
        /// owner accepts the socket.
        case connecting
        /// A ring, a socket that has sent a message, or a socket to a port of this runtime.
        case connected
        /// The port is about to move. It takes the messages on their way, and senders wait.
        case moving
        /// The port has moved, and has another channel.
        case moved
        /// Nothing more is sent. The port takes the messages on their way, and ends.
        case finishing
        /// The port is gone.
        case invalid
        /// The runtime has ended.
        case closed
    }

    /// Whether the port is one of this runtime's.
    let isLocal: Bool
    private(set) var sentCount = 0
    private(set) var lifecycle = Lifecycle.unconnected
    /// The waiters for room or for a connection, in the order they came. The first one watches the carrier.
    private(set) var waiters: [any Waiter] = []
    /// Whether the last attempt found no room. Then only the first waiter touches the carrier.
    var isFull = false
    /// Whether somebody waits for the port's end. Each new connection to the owner asks for it.
    var isWatched = false

    // MARK: Sending

    /// Whether a new sender may try before it becomes a waiter.
    /// - Parameter isLast: Whether the waiters go first.
    func mayTry(isLast: Bool) -> Bool { waiters.isEmpty || !isLast && !isFull }

    /// The carrier has taken a message.
    mutating func noteSent() {
        isFull = false
        sentCount += 1
        lifecycle = .connected
    }

    /// Whether the owner is known to accept the channel. Only then do senders wait until their own deadlines.
    var isConnected: Bool { isLocal || lifecycle == .connected || lifecycle == .moving }

    /// Whether nothing is sent by this channel, because the port moves or has moved.
    var isOnTheMove: Bool { lifecycle == .moving || lifecycle == .moved }

    mutating func add(_ waiter: some Waiter) { waiters.append(waiter) }

    /// - Returns: The waiter to wake: the next one, if the first has left.
    mutating func remove(_ waiter: some Waiter) -> (any Waiter)? {
        guard let index = waiters.firstIndex(where: { $0 === waiter }) else { return nil }
        waiters.remove(at: index)
        return index == 0 ? waiters.first : nil
    }

    func isFirst(_ waiter: some Waiter) -> Bool { waiters.first === waiter }

    // MARK: Connecting

    /// There is a socket to the port, or the owner was asked for a ring.
    mutating func connect() { lifecycle = isLocal ? .connected : .connecting }

    /// The owner has made a ring. The senders that have waited for it come first.
    mutating func accept() { if lifecycle == .connecting { (lifecycle, isFull) = (.connected, !waiters.isEmpty) } }

    /// There is no way any more, and nothing waits on it.
    mutating func disconnect() {
        if lifecycle == .connected || lifecycle == .connecting { (lifecycle, isFull) = (.unconnected, false) }
    }

    /// Whether nobody waits to send by the way there is. Waiters for a finishing port send nothing more, and those for a
    /// moving one will have another way.
    var isIdle: Bool { waiters.isEmpty || carriesNoMore }

    /// Whether a way, if there is one, has carried something.
    var mayHaveSent: Bool { lifecycle == .connected || carriesNoMore }

    /// Whether the way carries nothing more, and the owner waits for the news that it has everything.
    var carriesNoMore: Bool { lifecycle == .finishing || lifecycle == .moving }

    // MARK: Moving

    /// Sends nothing to a port that is about to move.
    /// - Returns: Whether the port may move.
    mutating func waitForMove() -> Bool {
        switch lifecycle {
        case .unconnected, .connecting, .connected: lifecycle = .moving
        case .moving: break
        case .moved, .finishing, .invalid, .closed: return false
        }
        return true
    }

    /// The port has not moved.
    /// - Parameter isConnected: Whether there is a way to it.
    /// - Returns: Whether it was about to.
    mutating func stay(isConnected: Bool) -> Bool {
        guard lifecycle == .moving else { return false }
        (lifecycle, isFull) = (isLocal || isConnected ? .connected : .unconnected, false)
        return true
    }

    /// The port has another channel. A port of this runtime may have been invalidated when it had moved already.
    /// - Returns: The waiters to wake; nil when sending has ended.
    mutating func move() -> [any Waiter]? {
        if lifecycle == .invalid && !isLocal || lifecycle == .closed { return nil }
        lifecycle = .moved
        return waiters
    }

    // MARK: The end

    /// Sends nothing more to a port that is about to end.
    /// - Returns: The waiters to wake.
    mutating func finish() -> [any Waiter] {
        if lifecycle != .invalid, lifecycle != .closed, lifecycle != .moved { lifecycle = .finishing }
        return waiters
    }

    /// Ends sending, for good.
    /// - Returns: The waiters to wake.
    mutating func end(_ end: Lifecycle) -> [any Waiter] {
        switch lifecycle {
        case .closed: break
        case .invalid, .moved: if end == .closed { lifecycle = end }
        default: lifecycle = end
        }
        return waiters
    }

    /// Throws when sending has ended.
    func check(_ invalid: @autoclosure () -> PortError) throws(PortError) {
        switch lifecycle {
        case .unconnected, .connecting, .connected, .moving, .moved: return
        case .finishing:
            let error = invalid()
            throw error.port.map { .refused(port: $0) } ?? error
        case .invalid: throw invalid()
        case .closed: throw .isEnding
        }
    }
}
