import Glibc
import RunLoops
import Synchronization

// Connecting a channel to its port.

extension SendChannel {
    var controlAddress: ControlAddress { ControlAddress(incarnation: id.incarnation, directory: path) }
    private var socketPath: String { "\(path)/\(id.incarnation)/\(id.number)" }

    /// The path of the other process's socket, if something was sent to it.
    var usedPath: String? {
        state.withLock { $0.queue.mayHaveSent && $0.zeroMQ.isOpen } ? socketPath : nil
    }

    /// Notes when the connection of a socket that has sent something was first missed.
    ///
    /// - Returns: That time, and the path of the socket; nil without such a socket, or when the connection is open.
    func noteMissed() -> (since: MonotonicInstant, path: String)? {
        guard let path = usedPath else { return nil }
        return state.withLock { $0.zeroMQ.isKnownOpen ? nil : ($0.zeroMQ.miss(), path) }
    }

    /// The longest time that the notice of a port's end takes, after the port's socket was removed.
    private static let endPatience = Duration.seconds(10)

    /// Closes the socket if its connection has ended. libzmq does not report that. A receiver without memory for a
    /// message ends the connection, for example. The next send connects again.
    ///
    /// - Returns: Whether the connection was lost. Then this sender and all waiters get an error.
    func dropLostConnection() -> Bool {
        let count = sentCount
        guard let (since, path) = noteMissed() else { return false }
        switch channels.connectedSockets.connection(to: path, since: since) {
        case .unknown: return false
        case .connected(let found):
            state.withLock { $0.zeroMQ.note(found) }
            return false
        case .notConnected: state.withLock { $0.zeroMQ.note(nil) }
        }
        // A port that ends removes its path before its connections end, and the notice of its end may wait for this
        // very thread. Without this check, the end of the port would be taken for a lost connection.
        guard access(path, F_OK) == 0 || (since + Self.endPatience).hasPassed else { return false }
        // Checked last, because a process that is killed begins to exit before the kernel closes its sockets.
        guard channels.control.isAlive(id.incarnation) else { return false }
        let waiters = state.withLock { state in
            let waiters = state.loseConnection(missedSince: since, sentCount: count)
            if waiters != nil { tellZeroMQ(isOpen: false) }
            return waiters
        }
        guard let waiters else { return false }
        log.warning("lost the connection to \(identity), and the messages on their way there")
        for waiter in waiters { waiter.wake() }
        return true
    }

    /// Connects, unless the port has moved.
    func connect(before deadline: MonotonicInstant) throws(PortError) {
        guard !isLocal else { return }
        do throws(PortError) {
            try makeSocket(to: owner(before: deadline), blocks: true)
        } catch {
            if !hasMoved.load(ordering: .acquiring) { throw error }
        }
    }

    /// Connects if there is a control connection and the port has not moved. Otherwise returns the handshake to wait for
    /// before the next attempt.
    func connect(after former: ControlHandshake?) throws(PortError) -> ControlHandshake? {
        do throws(PortError) {
            switch try route(after: former) {
            case .handshake(let handshake): return handshake
            case .connection(let owner): try makeSocket(to: owner, blocks: false)
            }
        } catch {
            if !hasMoved.load(ordering: .acquiring) { throw error }
        }
        return nil
    }

    /// Blocks until there is a control connection to the owner's process, which then reports the end of the port.
    /// - Returns: Nil when the owner is this runtime.
    /// - Throws: ``PortError``: `cannotConnect`, `isInvalid`, `incompatibleVersion`…
    @discardableResult
    func connectToOwner(before deadline: MonotonicInstant) throws(PortError) -> ControlConnection? {
        guard !isLocal else { return nil }
        do throws(PortError) {
            return try owner(before: deadline)
        } catch {
            guard hasMoved.load(ordering: .acquiring) else { throw error }
            return try latest.connectToOwner(before: deadline)
        }
    }

    private func owner(before deadline: MonotonicInstant) throws(PortError) -> ControlConnection {
        switch try route() {
        case .connection(let owner): return owner
        case .handshake(let handshake):
            _ = handshake.wait(until: deadline)
            return try owner(after: handshake)
        }
    }

    /// Suspends until there is a control connection to the owner's process, which then reports the end of the port.
    /// - Returns: Nil when the owner is this runtime.
    /// - Throws: ``PortError``: `cannotConnect`, `isInvalid`, `incompatibleVersion`… `CancellationError`.
    @discardableResult
    nonisolated(nonsending) func connectToOwner(before deadline: MonotonicInstant) async throws -> ControlConnection? {
        guard !isLocal else { return nil }
        do {
            switch try route() {
            case .connection(let owner): return owner
            case .handshake(let handshake):
                _ = try await handshake.outcome.value(before: deadline, on: channels.housekeeping)
                return try owner(after: handshake)
            }
        } catch {
            guard hasMoved.load(ordering: .acquiring) else { throw error }
            return try await latest.connectToOwner(before: deadline)
        }
    }

    private func owner(after handshake: ControlHandshake) throws(PortError) -> ControlConnection {
        switch try route(after: handshake) {
        case .connection(let owner): return owner
        case .handshake: throw handshake.timeoutError(identity)
        }
    }

    private func route(after former: ControlHandshake? = nil) throws(PortError) -> ControlConnectionTable.Route {
        // A port of this runtime that has no queue is gone, and the runtime must not call itself.
        if id.incarnation == channels.incarnation { throw .isInvalid(port: identity) }
        state.withLock { $0.queue.isWatched = true }
        do {
            let route = try channels.control.route(to: identity, at: controlAddress, after: former)
            if case .connection(let owner) = route { owner.send(.watch(id.number)) }
            return route
        } catch {
            if case .isInvalid = error, !hasMoved.load(ordering: .acquiring) { ownerDied() }
            throw error
        }
    }

    /// - Parameter blocks: Whether the calling thread waits for the connection.
    private func makeSocket(to owner: ControlConnection, blocks: Bool) throws(PortError) {
        if askForRing(owner, blocks: blocks) { return }
        // An optional, because a closure cannot consume what it captures.
        var made: ZeroMQConnection.Socket?
        do throws(PortError) {
            let highWaterMark = Int32(clamping: max(right.queueLimit, 1))
            made = try channels.sockets.makePush("ipc://" + socketPath, highWaterMark: highWaterMark)
        } catch {
            channels.connections.makeRoom()
            throw error
        }
        let isOpened = state.withLock { state in
            // The port may have moved, or ended.
            guard state.queue.lifecycle == .unconnected else { return false }
            state.zeroMQ.open(made.take(), origin: owner.ownOrigin)
            state.queue.connect()
            tellZeroMQ(isOpen: true)
            return true
        }
        guard isOpened else { return }
        log.debug("opened a socket to \(identity)")
        channels.connections.opened(self)
    }
}
