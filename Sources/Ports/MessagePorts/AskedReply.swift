import RunLoops

/// A request whose reply, or error, goes to a handler. If the object ends before, the handler is not called, and the
/// server learns that its asker has given up.
package final class AskedReply: Sendable {
    private let request: OpenRequest

    /// Sends the request. Blocks while the port has no room, until the deadline.
    /// - Parameters:
    ///   - remote: The port.
    ///   - message: The request. Its own `replyPort` is not sent.
    ///   - deadline: The end of the wait for room.
    ///   - whenDone: Called once, on any thread, perhaps at once. It must not block.
    package init(
        of remote: RemoteMessagePort, _ message: MachPort.Message, before deadline: MonotonicInstant,
        whenDone: @escaping @Sendable (Result<MachPort.Message, PortError>) -> Void
    ) throws(PortError) {
        try Fork.check()
        let channel = remote.sendRight.channel
        var request = try OpenRequest(to: channel, isForTasks: true)
        var outgoing = try request.outgoing(message)
        try channel.send(&outgoing, before: deadline)
        request.noteSent()
        request.pending.outcome.whenSet { outcome in whenDone(outcome.map { MachPort.Message($0) }) }
        self.request = request
    }

    /// Sends the request if there is a connection with room.
    /// - Parameters:
    ///   - remote: The port.
    ///   - message: The request. Its own `replyPort` is not sent.
    ///   - whenDone: Called once, on any thread, perhaps at once. It must not block.
    /// - Returns: Nil when the request was not sent, because it would have to wait.
    package init?(
        of remote: RemoteMessagePort, atOnce message: MachPort.Message,
        whenDone: @escaping @Sendable (Result<MachPort.Message, PortError>) -> Void
    ) throws(PortError) {
        try Fork.check()
        let channel = remote.sendRight.channel
        var request = try OpenRequest(to: channel, isForTasks: true)
        var outgoing = try request.outgoing(message)
        guard try channel.sendAtOnce(&outgoing, before: .distantFuture) else { return nil }
        request.noteSent()
        request.pending.outcome.whenSet { outcome in whenDone(outcome.map { MachPort.Message($0) }) }
        self.request = request
    }

    /// Sends the request, and suspends the task while the port has no room.
    /// - Parameters:
    ///   - remote: The port.
    ///   - message: The request. Its own `replyPort` is not sent.
    ///   - whenDone: Called once, on any thread, perhaps at once. It must not block.
    /// - Throws: ``PortError`` or `CancellationError`, when the request was not sent.
    package nonisolated(nonsending) init(
        of remote: RemoteMessagePort, _ message: MachPort.Message,
        whenDone: @escaping @Sendable (Result<MachPort.Message, PortError>) -> Void
    ) async throws {
        try Fork.check()
        let channel = remote.sendRight.channel
        var request = try OpenRequest(to: channel, isForTasks: true)
        try await channel.send(request.outgoing(message), before: .distantFuture)
        request.noteSent()
        request.pending.outcome.whenSet { outcome in whenDone(outcome.map { MachPort.Message($0) }) }
        self.request = request
    }
}
