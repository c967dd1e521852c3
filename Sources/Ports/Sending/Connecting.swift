import RunLoops
import ZeroMQ

// How a channel gets its socket, and when it closes an idle one.

extension SendChannel {
    /// Where the owner's control socket is.
    var controlAddress: ControlAddress { ControlAddress(incarnation: id.incarnation, directory: path) }

    private var socketPath: String { "\(path)/\(id.incarnation)/\(id.number)" }

    /// The path of the other process's socket, if something was sent to it.
    var usedPath: String? { !isLocal && state.withLock { $0.queue.lifecycle == .connected } ? socketPath : nil }

    /// Whether something was sent to where the port is.
    var isConnected: Bool { state.withLock { $0.queue.isConnected } }

    var notAccepted: PortError { .cannotConnect(port: id, reason: "its owner accepts no connection") }

    /// Closes a socket that was never accepted, for a new attempt.
    func dropUnaccepted() { state.withLock { if $0.queue.dropUnaccepted() { $0.socket = nil } } }

    func connect(before deadline: MonotonicInstant) throws(PortError) {
        if let owner = try connectToOwner(before: deadline) { try makeSocket(to: owner) }
    }

    /// Connects if the control connection stands.
    ///
    /// - Parameter former: The handshake that the last attempt returned.
    /// - Returns: The handshake to wait for; nil when the channel is connected.
    func connect(after former: ControlHandshake?) throws(PortError) -> ControlHandshake? {
        switch try route(after: former) {
        case .handshake(let handshake): return handshake
        case .connection(let owner):
            try makeSocket(to: owner)
            return nil
        }
    }

    /// Connects to the owner's process, which from then on reports the end of the port.
    ///
    /// - Returns: The connection; nil when the owner is this runtime.
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
            _ = try await handshake.outcome.value(before: deadline, on: context.housekeeping)
            return try owner(after: handshake)
        }
    }

    private func owner(after handshake: ControlHandshake) throws(PortError) -> ControlConnection {
        switch try route(after: handshake) {
        case .connection(let owner): return owner
        case .handshake: throw handshake.timeoutError(id)
        }
    }

    private func route(after former: ControlHandshake? = nil) throws(PortError) -> ControlConnections.Route {
        noteWatched()
        do {
            let route = try context.control.route(to: id, at: controlAddress, after: former)
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
            made = try makeSocket("ipc://" + socketPath)
        } catch {
            context.connections.makeRoom()
            throw error
        }
        state.withLock { state in
            guard state.queue.lifecycle == .unconnected else { return }
            swap(&state.socket, &made)
            state.queue.connect(origin: owner.ownOrigin)
        }
        context.connections.opened(self)
    }

    func makeSocket(_ address: String) throws(PortError) -> Socket {
        try context.sockets.make(.push) { (socket) throws(ZeroMQError) in
            // Inside one process libzmq adds the two high-water marks.
            try socket.set(.sendHighWaterMark(isLocal ? 1 : queueLimit))
            try socket.set(.linger(isLocal ? 0 : -1))
            if !isLocal {
                // A stranger may take the path after the owner's death: no second connection, no early queue.
                try socket.set(.reconnectInterval(-1))
                try socket.set(.immediate(true))
            }
            try socket.connect(address)
        }
    }

    // MARK: Closing an idle connection

    var hasSocket: Bool { state.withLock { $0.socket != nil } }

    /// Closes the connection, now or when the answer to a drain probe comes.
    func closeIfIdle() {
        let isClosed = state.withLock { state in
            switch state.queue.closeIfIdle() {
            case .nothing: return false
            case .close:
                state.socket = nil
                return true
            case .probe:
                let number = UInt64.random(in: 0 ... .max)
                // Without room, the next round tries again.
                if var frame = try? Frame(drainProbe: number, origin: state.queue.origin),
                    (try? state.socket?.sendNow(&frame)) == true
                {
                    state.queue.noteProbe(number)
                }
                return false
            }
        }
        if isClosed { context.connections.closed(self) }
    }

    /// The port has answered a drain probe: everything before it was taken.
    func drained(_ number: UInt64) {
        let isClosed = state.withLock { state in
            guard state.queue.drained(number) else { return false }
            state.socket = nil
            return true
        }
        if isClosed { context.connections.closed(self) }
    }
}

extension Frame {
    fileprivate init(drainProbe number: UInt64, origin: UInt32) throws(ZeroMQError) {
        let header = WireHeader(kind: .drainProbe, request: number, origin: origin)
        try self.init(count: header.componentsOffset)
        withUnsafeMutableBytes { header.write(to: $0) }
    }
}
