import Glibc
import RunLoops
import ZeroMQ

// How a channel gets its socket.

extension SendChannel {
    var controlAddress: ControlAddress { ControlAddress(incarnation: id.incarnation, directory: path) }
    private var socketPath: String { "\(path)/\(id.incarnation)/\(id.number)" }

    /// The path of the other process's socket, if something was sent to it.
    var usedPath: String? {
        !isLocal && state.withLock { $0.queue.mayHaveSent && $0.socket != nil } ? socketPath : nil
    }

    /// Notes when the connection of a socket that has sent something was first missed.
    ///
    /// - Returns: That time, and the path of the socket; nil without such a socket, or when the connection is open.
    func noteMissed() -> (since: MonotonicInstant, path: String)? {
        guard let path = usedPath, state.withLock({ $0.connection })?.isOpen != true else { return nil }
        return state.withLock { state in
            let since = state.missedSince ?? .now
            state.missedSince = since
            return (since, path)
        }
    }

    /// How long the end of a port may take to arrive, when its socket is not there any more.
    private static let endPatience = Duration.seconds(10)

    /// Closes the socket if its connection has ended, which libzmq does not say: a receiver without memory for a message
    /// ends it. Then the next send connects again.
    ///
    /// - Returns: Whether the connection was lost: this sender has to be told, and all that wait.
    func dropLostConnection() -> Bool {
        let count = sentCount
        guard let (since, path) = noteMissed() else { return false }
        switch channels.connectedSockets.connection(to: path, since: since) {
        case .unknown: return false
        case .connected(let found):
            state.withLock { ($0.connection, $0.missedSince) = (found, nil) }
            return false
        case .notConnected: state.withLock { $0.connection = nil }
        }
        // A port that ends removes the path before its connections, and the news may wait for this very thread.
        guard access(path, F_OK) == 0 || (since + Self.endPatience).hasPassed else { return false }
        // Asked last: a process that is killed begins to exit before the kernel closes its sockets.
        guard channels.control.isAlive(id.incarnation) else { return false }
        let waiters = state.withLock { state -> [any Waiter]? in
            // Another thread may have made another socket.
            guard state.missedSince == since, state.queue.loseConnection(sentCount: count) else { return nil }
            state.socket = nil
            state.missedSince = nil
            return state.queue.waiters
        }
        guard let waiters else { return false }
        log.warning("lost the connection to \(identity), and the messages on their way there")
        for waiter in waiters { waiter.wake() }
        return true
    }

    func connect(before deadline: MonotonicInstant) throws(PortError) {
        if let owner = try connectToOwner(before: deadline) { try makeSocket(to: owner) }
    }

    /// Connects if the control connection stands; otherwise returns the handshake to wait for, for the next attempt.
    func connect(after former: ControlHandshake?) throws(PortError) -> ControlHandshake? {
        switch try route(after: former) {
        case .handshake(let handshake): return handshake
        case .connection(let owner):
            try makeSocket(to: owner)
            return nil
        }
    }

    /// Connects to the owner's process, which from then on reports the end of the port; nil when that is this runtime.
    @discardableResult
    func connectToOwner(before deadline: MonotonicInstant) throws(PortError) -> ControlConnection? {
        guard !isLocal else { return nil }
        switch try route() {
        case .connection(let owner): return owner
        case .handshake(let handshake):
            _ = handshake.wait(until: deadline)
            return try owner(after: handshake)
        }
    }

    /// As the form that blocks, suspending the task.
    @discardableResult
    nonisolated(nonsending) func connectToOwner(before deadline: MonotonicInstant) async throws -> ControlConnection? {
        guard !isLocal else { return nil }
        switch try route() {
        case .connection(let owner): return owner
        case .handshake(let handshake):
            _ = try await handshake.outcome.value(before: deadline, on: channels.housekeeping)
            return try owner(after: handshake)
        }
    }

    private func owner(after handshake: ControlHandshake) throws(PortError) -> ControlConnection {
        switch try route(after: handshake) {
        case .connection(let owner): return owner
        case .handshake: throw handshake.timeoutError(identity)
        }
    }

    private func route(after former: ControlHandshake? = nil) throws(PortError) -> ControlConnectionTable.Route {
        state.withLock { $0.queue.isWatched = true }
        do {
            let route = try channels.control.route(to: identity, at: controlAddress, after: former)
            if case .connection(let owner) = route { owner.send(.watch(id.number)) }
            return route
        } catch {
            if case .isInvalid = error { invalidate() }
            throw error
        }
    }

    private func makeSocket(to owner: ControlConnection) throws(PortError) {
        // An optional, because a closure cannot consume what it captures.
        var made: Socket?
        do throws(PortError) {
            let highWaterMark = Int32(clamping: max(right.queueLimit, 1))
            made = try channels.sockets.makePush("ipc://" + socketPath, highWaterMark: highWaterMark)
        } catch {
            channels.connections.makeRoom()
            throw error
        }
        state.withLock { state in
            guard state.queue.lifecycle == .unconnected else { return }
            swap(&state.socket, &made)
            (state.connection, state.missedSince) = (nil, nil)
            state.queue.connect(origin: owner.ownOrigin)
        }
        log.debug("opened a socket to \(identity)")
        channels.connections.opened(self)
    }
}
