import RunLoopLocks

/// The ports for replies: two for each registry directory, in which the asked process can certainly reach them. The
/// asking threads serve one port, and the housekeeping thread serves the other, for tasks.
final class ReplyPorts: Sendable {
    private struct Key: Hashable {
        let path: String
        let isForTasks: Bool
    }

    let pending: PendingReplies
    private let context: ReceiveContext
    /// The registry directory for requests inside the runtime.
    private let ownPath: String
    private let ports = Lock<[Key: Receiver]>([:])

    init(_ context: ReceiveContext, ownPath: String) {
        self.context = context
        self.ownPath = ownPath
        pending = PendingReplies(context.housekeeping)
    }

    /// The port for replies from the channel's owner.
    func port(for channel: SendChannel, isForTasks: Bool = false) throws(PortError) -> Receiver {
        let key = Key(path: channel.isLocal ? ownPath : channel.path, isForTasks: isForTasks)
        if let port = ports.withLock({ $0[key] }) { return port }
        let made = try Receiver(
            .init(), directoryPath: key.path, context,
            handlers: .init(message: { [pending] message in
                if message.kind == .reply { pending.arrived(message) } else { message.refuse() }
            }))
        if isForTasks { try made.schedule(in: context.housekeeping.loop(), forMode: .default) }
        let port = ports.withLock { ports in
            if let port = ports[key] { return port }
            ports[key] = made
            return made
        }
        // The loop would keep the surplus port.
        if port !== made { made.invalidate() }
        return port
    }

    func close() { _ = ports.withLock { exchange(&$0, with: [:]) } }
}
