import RunLoops
import ZeroMQ

// How a channel gets its socket, and when it closes an idle one.

extension SendChannel {
    /// Where the owner's control socket is.
    var controlAddress: ControlAddress { ControlAddress(incarnation: id.incarnation, directory: path) }

    private var socketPath: String { "\(path)/\(id.incarnation)/\(id.number)" }

    /// The path of the socket in another process that something was sent to.
    var usedPath: String? { !isLocal && state.withLock { $0.queue.lifecycle == .connected } ? socketPath : nil }

    /// Whether something was sent to where the port is.
    var isConnected: Bool { state.withLock { $0.queue.isConnected } }

    var notAccepted: PortError { .cannotConnect(port: id, reason: "its owner accepts no connection") }

    /// For a new attempt.
    func dropUnaccepted() { state.withLock { if $0.queue.dropUnaccepted() { $0.socket = nil } } }

    func connect(before deadline: MonotonicInstant) throws(PortError) {
        if let owner = try connectToOwner(before: deadline) { try makeSocket(to: owner) }
    }

    /// Connects if that takes no waiting.
    ///
    /// - Parameter former: The handshake that the last attempt returned.
    /// - Returns: The handshake to wait for; nil when the channel is connected.
    func connect(after former: ControlHandshake?) throws(PortError) -> ControlHandshake? {
        try withOwner { () throws(PortError) in
            switch try context.control.route(to: id, at: controlAddress, after: former) {
            case .handshake(let handshake): return handshake
            case .connection(let owner):
                owner.send(.watch(id.number))
                try makeSocket(to: owner)
                return nil
            }
        }
    }

    /// Connects to the owner's process, so that the death of the port, and of its owner, will be reported.
    ///
    /// - Returns: The connection; nil when the owner is this runtime.
    @discardableResult
    func connectToOwner(before deadline: MonotonicInstant) throws(PortError) -> ControlConnection? {
        guard !isLocal else { return nil }
        return try withOwner { () throws(PortError) in
            let owner = try context.control.connection(for: id, at: controlAddress, before: deadline)
            owner.send(.watch(id.number))
            return owner
        }
    }

    /// The same, suspending the task.
    @discardableResult
    nonisolated(nonsending) func connectToOwner(before deadline: MonotonicInstant) async throws -> ControlConnection? {
        guard !isLocal else { return nil }
        noteWatched()
        do {
            let owner = try await context.control.connection(for: id, at: controlAddress, before: deadline)
            owner.send(.watch(id.number))
            return owner
        } catch {
            if case PortError.isInvalid = error { invalidate() }
            throw error
        }
    }

    private func withOwner<Result>(_ body: () throws(PortError) -> Result) throws(PortError) -> Result {
        noteWatched()
        do {
            return try body()
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
            // Inside one process the two marks are added up to one queue.
            try socket.set(.sendHighWaterMark(isLocal ? 1 : queueLimit))
            try socket.set(.linger(isLocal ? 0 : -1))
            if !isLocal {
                // Never to a stranger that takes the path after the owner's death, and nothing queued for nobody.
                try socket.set(.reconnectInterval(-1))
                try socket.set(.immediate(true))
            }
            try socket.connect(address)
        }
    }

    // MARK: Closing an idle connection

    var hasSocket: Bool { state.withLock { $0.socket != nil } }

    /// Closes the connection, now or when the port has taken everything.
    func closeIfIdle() {
        let isClosed = state.withLock { state in
            switch state.queue.closeIfIdle() {
            case .nothing: return false
            case .close:
                state.socket = nil
                return true
            case .probe:
                let number = UInt64.random(in: 0 ... .max)
                // Without room now, another time.
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

    /// The port has taken everything that came before a drain probe.
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
    /// The question whether the port has taken everything that came before.
    fileprivate init(drainProbe number: UInt64, origin: UInt32) throws(ZeroMQError) {
        let header = WireHeader(kind: .drainProbe, request: number, origin: origin)
        try self.init(count: header.componentsOffset)
        withUnsafeMutableBytes { header.write(to: $0) }
    }
}
