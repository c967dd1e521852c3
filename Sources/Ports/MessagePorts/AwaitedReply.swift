import RunLoops

/// A request whose asker waits for the reply in a loop of another kind. If it ends first, the server learns that.
package struct AwaitedReply: ~Copyable {
    private let request: OpenRequest

    /// Sends the request; blocks until the deadline while the port has no room.
    /// - Parameter whenDone: Called once, on any thread, perhaps at once: it must not block.
    package init(
        of remote: RemoteMessagePort, id: UInt32, _ data: [UInt8]?, before deadline: MonotonicInstant,
        whenDone: @escaping @Sendable () -> Void
    ) throws(PortError) {
        let channel = remote.sendRight.channel
        var request = try OpenRequest(to: channel, isForTasks: true)
        var outgoing = try request.outgoing(MachPort.Message(id: id, data: data))
        try channel.send(&outgoing, before: deadline)
        request.noteSent()
        request.pending.outcome.whenSet { _ in whenDone() }
        self.request = request
    }

    /// Whether there is a reply, or an error in its place.
    package var isDone: Bool { request.pending.outcome.value != nil }

    /// The reply's data; before ``isDone``, throws the error of a wait in vain.
    package func data() throws(PortError) -> [UInt8]? { try request.reply(request.pending.outcome.value).data }
}
