import RunLoopLocks

/// The ports for replies: two for each registry directory, in which the asked process can certainly reach them. The
/// asking threads serve one port, and the housekeeping thread serves the other, for tasks.
final class ReplyPorts: Sendable {
    let pending: PendingReplies
    private let context: ReceiveContext
    /// The registry directory for requests inside the runtime.
    private let ownPath: String
    /// By whether they are for tasks, and by the path of the registry directory.
    private let ports = Lock<[Bool: [String: Receiver]]>([:])

    init(_ context: ReceiveContext, ownPath: String) {
        self.context = context
        self.ownPath = ownPath
        pending = PendingReplies(context.housekeeping)
    }

    /// The port for replies from the channel's owner.
    func port(for channel: SendChannel, isForTasks: Bool = false) throws(PortError) -> Receiver {
        let path = channel.isLocal ? ownPath : channel.path
        if let port = ports.withLock({ $0[isForTasks]?[path] }) { return port }
        let made = try Receiver(
            .init(), directoryPath: path, context,
            handlers: .init(message: { [pending] message in
                if message.header.kind == .reply { pending.arrived(message) } else { message.refuse() }
            }))
        if isForTasks { try made.schedule(in: context.housekeeping.loop(), forMode: .default) }
        let port = ports.withLock { ports in
            if let port = ports[isForTasks]?[path] { return port }
            ports[isForTasks, default: [:]][path] = made
            return made
        }
        // The loop would keep the surplus port.
        if port !== made { made.invalidate() }
        return port
    }

    func close() { _ = ports.withLock { exchange(&$0, with: [:]) } }
}
