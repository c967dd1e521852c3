import Glibc
import RunLoopLocks
import RunLoops
import ZeroMQ

/// Makes the ZeroMQ sockets of a runtime, all in one context. The first socket makes the context.
final class SocketFactory: Sendable {
    private enum State {
        case unused
        /// The spare descriptors are for the end of the runtime, when no other descriptor may be left.
        case open(ZeroMQContext, spares: [Int32])
        case closed
    }

    private let state = Lock(State.unused)

    /// The address of the bell of a port.
    private static func bellAddress(_ port: PortID) -> String { "inproc://\(port.number)" }

    /// Makes a socket that receives a port's messages.
    func makePull(
        for port: PortID, highWaterMark: Int32, messageLimit: Int, mark: UInt32
    ) throws(PortError) -> ZeroMQIntake {
        let socket = try make(
            .pull, Self.bellAddress(port),
            [
                .receiveHighWaterMark(highWaterMark), .ipcPeerUser(geteuid()), .linger(0),
                // The limit covers ZMTP's greeting: with less, no other process could connect.
                .maxMessageSize(Int64(max(messageLimit, 64))),
                // Refuses ZMTP 1 and 2, whose messages come without the kernel's credentials.
                .authenticationDomain("ports"),
            ])
        return ZeroMQIntake(socket, mark: mark)
    }

    /// Makes a socket that wakes a port of this runtime. One bell has the effect of many, because only the readable
    /// descriptor counts. So the connection keeps one frame, which takes 33 KiB less memory than queues.
    func makeBell(of port: PortID) throws(PortError) -> OwnBell {
        OwnBell(try make(.push, Self.bellAddress(port), [.conflate(true), .linger(0)]))
    }

    /// Closes the sockets of a port.
    static func close(_ intake: consuming ZeroMQIntake, _ bell: consuming OwnBell?, of port: PortID) {
        guard let pull = intake.takeSocket() else { return }
        // A call fails when the context is ending. Then the connection ends with the context.
        try? pull.unbind(bellAddress(port))
        guard let bell else { return }
        bell.close(with: pull, at: bellAddress(port))
    }

    /// Makes a socket that sends to a port of another process.
    func makePush(_ address: String, highWaterMark: Int32) throws(PortError) -> ZeroMQSocket {
        // libzmq must not reconnect, because a stranger may bind the path after the owner's death. It must not queue
        // messages without a connection, because nobody would get them.
        let toOwnerOnly: [ZeroMQSocket.Option] = [.reconnectInterval(-1), .immediate(true)]
        return try make(.push, address, [.sendHighWaterMark(highWaterMark), .linger(-1)] + toOwnerOnly)
    }

    private func make(_ kind: ZeroMQSocket.Kind, _ address: String, _ options: [ZeroMQSocket.Option]) throws(PortError)
        -> ZeroMQSocket
    {
        try checkReserve()
        let context = try context()
        do throws(ZeroMQError) {
            let socket = try ZeroMQSocket(kind, in: context)
            // No deadline for the handshake, because the peer may be a stopped process. When this process was stopped,
            // too, and continues, libzmq would check the deadline before it reads the handshake that has arrived.
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

    /// Throws when the reserve of descriptors is touched. Waits before for closed sockets that libzmq has not ended,
    /// because their descriptors will be free.
    func checkReserve() throws(PortError) {
        if DescriptorReserve.isLeft { return }
        try Fork.check()
        if case .open(let context, _) = state.withLock({ $0 }) { _ = context.awaitClosedSockets() }
        if !DescriptorReserve.isLeft { throw .outOfDescriptors(limit: Int(clamping: Descriptor.limit)) }
    }

    private func context() throws(PortError) -> ZeroMQContext {
        try Fork.check()
        return try state.withLock { (state) throws(PortError) in
            switch state {
            case .open(let context, _): return context
            case .closed: throw .isEnding
            case .unused:
                let made = try zeroMQ { () throws(ZeroMQError) in
                    try ZeroMQContext(maxSockets: Int32(clamping: Descriptor.limit))
                }
                let spares = (0..<8).compactMap { _ in try? LocalSocket.make(.stream) }
                state = .open(made, spares: spares)
                return made
            }
        }
    }

    /// Refuses further sockets, frees the spare descriptors, and returns the context, which the caller terminates.
    func close() -> ZeroMQContext? {
        guard case .open(let context, let spares) = state.withLock({ exchange(&$0, with: .closed) }) else { return nil }
        for spare in spares { Glibc.close(spare) }
        return context
    }
}

extension ZeroMQSocket {
    /// Sends a frame without waiting. Returns false without room.
    func sendLookingForRoom(_ frame: inout Frame) throws(PortError) -> Bool {
        try zeroMQ { () throws(ZeroMQError) in
            // A send processes libzmq's commands only now and then. Reading the events processes them, so that libzmq
            // sees new room.
            if try send(&frame) { return true }
            return try events().contains(.sendable) ? send(&frame) : false
        }
    }

    func watchedDescriptor() throws(PortError) -> Int32 { try zeroMQ { () throws(ZeroMQError) in try descriptor } }
}

func zeroMQ<Result: ~Copyable>(_ body: () throws(ZeroMQError) -> Result) throws(PortError) -> Result {
    do { return try body() } catch { throw PortError(error) }
}

extension PortError {
    fileprivate init(_ error: ZeroMQError) {
        self =
            switch error.code {
            case EMFILE: .descriptorsGone
            case EAGAIN where error.call == "pthread_create": PortError(.threadsGone)
            case ZeroMQError.contextTerminated: .isEnding
            default: .transport(call: error.call, errno: error.code)
            }
    }
}
