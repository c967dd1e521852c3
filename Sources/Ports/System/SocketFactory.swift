import Glibc
import RunLoops
import ZeroMQ

/// Makes the ZeroMQ sockets of a runtime, all in one context that is made with the first.
final class SocketFactory: Sendable {
    private enum State {
        case unused
        case open(Context)
        case closed
    }

    private let state = Lock(State.unused)

    /// Makes a socket, unless only the reserve of descriptors is left.
    func make(
        _ kind: Socket.Kind, _ prepare: (borrowing Socket) throws(ZeroMQError) -> Void
    ) throws(PortError) -> Socket {
        try AcceptGuard.checkReserve()
        let context = try context()
        do throws(ZeroMQError) {
            let socket = try Socket(kind, in: context)
            try prepare(socket)
            return socket
        } catch {
            // libzmq says EMFILE also when the context has made as many sockets as it may.
            if error.code == EMFILE, error.call == "zmq_socket" {
                try AcceptGuard.checkReserve()
                throw .outOfSockets(limit: context.maxSockets)
            }
            throw PortError(error)
        }
    }

    private func context() throws(PortError) -> Context {
        try Fork.check()
        return try state.withLock { (state) throws(PortError) in
            switch state {
            case .open(let context): return context
            case .closed: throw .isEnding
            case .unused:
                let made = try zeroMQ { () throws(ZeroMQError) in
                    try Context(maxSockets: Int32(clamping: Descriptor.limit))
                }
                state = .open(made)
                return made
            }
        }
    }

    /// Makes no more sockets.
    ///
    /// - Returns: The context, to be terminated.
    func close() -> Context? {
        state.withLock { state in
            defer { state = .closed }
            if case .open(let context) = state { return context }
            return nil
        }
    }
}
