import RunLoops

/// A request whose asker waits for the reply in a loop of another kind. If the asker ends first, the server learns
/// that.
package struct AwaitedReply: ~Copyable {
    private let request: OpenRequest

    /// Sends the request. Blocks while the port has no room, until the deadline.
    /// - Parameters:
    ///   - remote: The port.
    ///   - id: A number for the subject of the request.
    ///   - data: The request's data; nil for none.
    ///   - replyLimit: The largest reply, in bytes, in place of the runtime's.
    ///   - deadline: The end of the wait for room.
    ///   - whenDone: Called once, on any thread, perhaps at once. It must not block.
    package init(
        of remote: RemoteMessagePort, id: UInt32, _ data: [UInt8]?, replyLimit: Int, before deadline: MonotonicInstant,
        whenDone: @escaping @Sendable () -> Void
    ) throws(PortError) {
        let channel = remote.sendRight.channel
        var request = try OpenRequest(to: channel, isForTasks: true, replyLimit: replyLimit)
        var outgoing = try request.outgoing(MachPort.Message(id: id, data: data))
        try channel.send(&outgoing, before: deadline)
        request.noteSent()
        request.pending.outcome.whenSet { _ in whenDone() }
        self.request = request
    }

    /// Whether there is a reply or an error.
    package var isDone: Bool { request.pending.outcome.value != nil }

    /// The reply's data; nil when the server replied without data.
    /// - Throws: ``PortError``: `receiveTimedOut` before ``isDone``, or the error in place of the reply.
    package func data() throws(PortError) -> [UInt8]? { try request.reply(request.pending.outcome.value).data }
}
