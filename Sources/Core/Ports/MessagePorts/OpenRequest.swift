import RunLoops

/// A request of this process, from before it is sent until its outcome. If the asker gives up first, the server learns
/// that.
struct OpenRequest: ~Copyable {
    let pending: PendingReply
    /// The port for the reply.
    var replyPort: Receiver { use.port }

    private let channel: SendChannel
    /// Retained, because the end of the runtime would leave the request without a reply.
    private let runtime: PortRuntime
    private let use: ReplyPorts.Use
    private let number: UInt64
    private var isSent = false

    /// - Parameters:
    ///   - channel: The way to the port.
    ///   - isForTasks: Whether the housekeeping thread takes the reply.
    ///   - replyLimit: The largest reply, in bytes; nil for the runtime's.
    init(to channel: SendChannel, isForTasks: Bool = false, replyLimit: Int? = nil) throws(PortError) {
        let runtime = try channel.retainedRuntime()
        use = try runtime.replies.use(for: channel, isForTasks: isForTasks, limit: replyLimit)
        pending = PendingReply(channel: channel, replyPort: use.port.id.number)
        number = runtime.replies.pending.add(pending)
        self.channel = channel
        self.runtime = runtime
    }

    deinit {
        // In a forked child, the request is still the parent's.
        guard !Fork.isChild else { return }
        if let channel = runtime.replies.pending.remove(number)?.channel, isSent {
            channel.tell(.cancelled(number))
            // The request may have gone on with its port.
            let home = channel.latest
            if home !== channel { home.tell(.cancelled(number)) }
        }
        runtime.replies.end(use)
    }

    var housekeeping: Housekeeping { runtime.housekeeping }

    /// The message as a request to send.
    func outgoing(_ message: MachPort.Message) throws(PortError) -> OutgoingMessage {
        var message = message
        message.replyPort = MachPort.SendRight(replyPort.channel)
        return try MessageEncoding.outgoing(message, kind: .request, request: number, to: channel)
    }

    mutating func noteSent() {
        isSent = true
        runtime.replies.pending.noteSent(number)
    }

    /// The reply.
    /// - Parameter outcome: The outcome; nil when the wait has ended without one.
    /// - Throws: ``PortError``: `receiveTimedOut` without an outcome, or the error in place of the reply.
    func reply(_ outcome: Result<ReceivedMessage, PortError>?) throws(PortError) -> MachPort.Message {
        guard let outcome else { throw channel.noAnswer(.receiveTimedOut(port: channel.identity)) }
        return MachPort.Message(try outcome.get())
    }
}
