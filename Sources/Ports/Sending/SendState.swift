/// The state of a channel without its carrier: lifecycle, waiters, count. A plain value: the channel takes its lock, asks
/// this value for a decision, and acts after the lock.
struct SendState {
    enum Lifecycle: Equatable {
        /// No way to the port.
        case unconnected
        /// A socket to another process that has sent nothing yet, or a question for a lane. libzmq does not say whether the
        /// owner accepts the socket.
        case connecting
        /// A lane, a socket that has sent a message, or a socket to a port of this runtime.
        case connected
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
    var isConnected: Bool { isLocal || lifecycle == .connected }

    mutating func add(_ waiter: some Waiter) { waiters.append(waiter) }

    /// - Returns: The waiter to wake: the next one, if the first has left.
    mutating func remove(_ waiter: some Waiter) -> (any Waiter)? {
        guard let index = waiters.firstIndex(where: { $0 === waiter }) else { return nil }
        waiters.remove(at: index)
        return index == 0 ? waiters.first : nil
    }

    func isFirst(_ waiter: some Waiter) -> Bool { waiters.first === waiter }

    // MARK: Connecting

    /// There is a socket to the port, or the owner was asked for a lane.
    mutating func connect() { lifecycle = isLocal ? .connected : .connecting }

    /// The owner has made a lane.
    mutating func accept() { if lifecycle == .connecting { (lifecycle, isFull) = (.connected, false) } }

    /// There is no way any more, and nothing waits on it.
    mutating func disconnect() {
        if lifecycle == .connected || lifecycle == .connecting { (lifecycle, isFull) = (.unconnected, false) }
    }

    /// Whether nobody waits to send. Waiters for a finishing port send nothing more.
    var isIdle: Bool { waiters.isEmpty || lifecycle == .finishing }

    /// Whether a way, if there is one, has carried something.
    var mayHaveSent: Bool { lifecycle == .connected || lifecycle == .finishing }

    // MARK: The end

    /// Sends nothing more to a port that is about to end.
    /// - Returns: The waiters to wake.
    mutating func finish() -> [any Waiter] {
        if lifecycle != .invalid, lifecycle != .closed { lifecycle = .finishing }
        return waiters
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
