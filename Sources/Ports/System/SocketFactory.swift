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

    /// A socket that receives a port's messages, at an address inside the runtime.
    func makePull(_ address: String, highWaterMark: Int32, messageLimit: Int) throws(PortError) -> Socket {
        try make(
            .pull, address,
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
    func makeBell(_ address: String) throws(PortError) -> Socket {
        try make(.push, address, [.conflate(true), .linger(0)])
    }

    func makePush(_ address: String, highWaterMark: Int32) throws(PortError) -> Socket {
        // Never to a stranger that takes the path after the owner's death, and nothing queued for nobody.
        let toOwnerOnly: [Socket.Option] = [.reconnectInterval(-1), .immediate(true)]
        return try make(.push, address, [.sendHighWaterMark(highWaterMark), .linger(-1)] + toOwnerOnly)
    }

    private func make(_ kind: Socket.Kind, _ address: String, _ options: [Socket.Option]) throws(PortError) -> Socket {
        try DescriptorReserve.check()
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
                try DescriptorReserve.check()
                throw .outOfSockets(limit: context.maxSockets)
            }
            throw PortError(error)
        }
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
