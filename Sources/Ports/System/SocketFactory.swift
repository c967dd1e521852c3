import Glibc
import RunLoopLocks
import RunLoops
import ZeroMQ

/// Makes the ZeroMQ sockets of a runtime, all in one context. The first socket makes the context.
final class SocketFactory: Sendable {
    private enum State {
        case unused
        /// The spare descriptors are for the end of the runtime, when no other may be left.
        case open(Context, spares: [Int32])
        case closed
    }

    private let state = Lock(State.unused)

    /// Where the bell of a port of the runtime is.
    private static func bellAddress(_ port: PortID) -> String { "inproc://\(port.number)" }

    /// A socket that receives a port's messages.
    func makePull(for port: PortID, highWaterMark: Int32, messageLimit: Int) throws(PortError) -> Socket {
        try make(
            .pull, Self.bellAddress(port),
            [
                .receiveHighWaterMark(highWaterMark), .ipcPeerUser(geteuid()), .linger(0),
                // The limit covers ZMTP's greeting: with less, no other process could connect.
                .maxMessageSize(Int64(max(messageLimit, 64))),
                // Refuses ZMTP 1 and 2, whose messages come without the kernel's credentials.
                .authenticationDomain("ports"),
            ])
    }

    /// A socket that wakes a port of this runtime. One bell says as much as many, and only the descriptor's report
    /// counts: a connection that keeps the last frame takes 33 KiB less memory than one with queues.
    func makeBell(of port: PortID) throws(PortError) -> Socket {
        try make(.push, Self.bellAddress(port), [.conflate(true), .linger(0)])
    }

    /// Closes the sockets of a port. First their connection is ended and their address given up: then libzmq ends them at
    /// once, in the order in which they were closed.
    static func close(_ pull: consuming Socket, _ bell: consuming Socket?, of port: PortID) {
        // A call fails when the context is ending, and with it the connection.
        try? pull.unbind(bellAddress(port))
        guard let bell else { return }
        try? bell.disconnect(bellAddress(port))
        // libzmq's steps to end a connection: the pull socket agrees, the bell learns that, and so does the pull socket.
        _ = try? pull.events()
        _ = try? bell.events()
        _ = try? pull.events()
    }

    func makePush(_ address: String, highWaterMark: Int32) throws(PortError) -> Socket {
        // Never to a stranger that takes the path after the owner's death, and nothing queued for nobody.
        let toOwnerOnly: [Socket.Option] = [.reconnectInterval(-1), .immediate(true)]
        return try make(.push, address, [.sendHighWaterMark(highWaterMark), .linger(-1)] + toOwnerOnly)
    }

    private func make(_ kind: Socket.Kind, _ address: String, _ options: [Socket.Option]) throws(PortError) -> Socket {
        try checkReserve()
        let context = try context()
        do throws(ZeroMQError) {
            let socket = try Socket(kind, in: context)
            // A stopped process is waited for. When it goes on, libzmq looks at the time first, then at what has come.
            for option in [.handshakeInterval(0)] + options { try socket.set(option) }
            if kind == .pull { try socket.bind(address) } else { try socket.connect(address) }
            return socket
        } catch {
            // libzmq reports EMFILE also when the context has reached ZMQ_MAX_SOCKETS.
            if error.code == EMFILE, error.call == "zmq_socket" {
                try checkReserve()
                throw .outOfSockets(limit: context.maxSockets)
            }
            throw PortError(error)
        }
    }

    /// Throws when the reserve of descriptors is touched. Closed sockets that libzmq has not ended do not count.
    func checkReserve() throws(PortError) {
        if DescriptorReserve.isLeft { return }
        try Fork.check()
        if case .open(let context, _) = state.withLock({ $0 }) { _ = context.awaitClosedSockets() }
        if !DescriptorReserve.isLeft { throw .outOfDescriptors(limit: Int(clamping: Descriptor.limit)) }
    }

    private func context() throws(PortError) -> Context {
        try Fork.check()
        return try state.withLock { (state) throws(PortError) in
            switch state {
            case .open(let context, _): return context
            case .closed: throw .isEnding
            case .unused:
                let made = try zeroMQ { () throws(ZeroMQError) in
                    try Context(maxSockets: Int32(clamping: Descriptor.limit))
                }
                let spares = (0..<8).compactMap { _ in try? LocalSocket.make(.stream) }
                state = .open(made, spares: spares)
                return made
            }
        }
    }

    /// Refuses further sockets, frees the spare descriptors, and returns the context, for the caller to terminate.
    func close() -> Context? {
        guard case .open(let context, let spares) = state.withLock({ exchange(&$0, with: .closed) }) else { return nil }
        for spare in spares { Glibc.close(spare) }
        return context
    }
}

extension Socket {
    func sendNow(_ frame: inout Frame) throws(PortError) -> Bool {
        do throws(ZeroMQError) {
            // libzmq reads its commands only now and then; reading the events makes it look again for room.
            if try send(&frame) { return true }
            return try events().contains(.sendable) ? send(&frame) : false
        } catch {
            throw PortError(error)
        }
    }
}
