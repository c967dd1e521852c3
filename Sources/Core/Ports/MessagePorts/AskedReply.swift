import RunLoops

/// A request whose reply, or error, goes to a handler. If the object ends before, the handler is not called, and the
/// server learns that its asker has given up.
package final class AskedReply: Sendable {
    /// Called once, on any thread, perhaps at once. It must not block.
    package typealias Handler = @Sendable (Result<MachPort.Message, PortError>) -> Void

    private let request: OpenRequest

    /// The request was sent.
    private init(_ request: consuming OpenRequest, _ whenDone: @escaping Handler) {
        request.noteSent()
        request.pending.outcome.whenSet { outcome in whenDone(outcome.map { MachPort.Message($0) }) }
        self.request = request
    }

    /// Sends the request. Blocks while the port has no room, until the deadline.
    /// - Parameters:
    ///   - remote: The port.
    ///   - message: The request. Its own `replyPort` is not sent.
    ///   - replyLimit: The largest reply, in bytes; nil for the runtime's.
    ///   - deadline: The end of the wait for room.
    ///   - whenDone: Gets the reply.
    package convenience init(
        of remote: RemoteMessagePort, _ message: MachPort.Message, replyLimit: Int? = nil,
        before deadline: MonotonicInstant, whenDone: @escaping Handler
    ) throws(PortError) {
        let channel = remote.sendRight.channel
        let request = try Self.request(to: channel, replyLimit)
        var outgoing = try request.outgoing(message)
        try channel.send(&outgoing, before: deadline)
        self.init(request, whenDone)
    }

    /// Sends the request if there is a connection with room.
    /// - Parameters:
    ///   - remote: The port.
    ///   - message: The request. Its own `replyPort` is not sent.
    ///   - whenDone: Gets the reply.
    /// - Returns: Nil when the request was not sent, because it would have to wait.
    package convenience init?(
        of remote: RemoteMessagePort, atOnce message: MachPort.Message, whenDone: @escaping Handler
    ) throws(PortError) {
        let channel = remote.sendRight.channel
        let request = try Self.request(to: channel)
        var outgoing = try request.outgoing(message)
        guard try channel.sendAtOnce(&outgoing, before: .distantFuture) else { return nil }
        self.init(request, whenDone)
    }

    /// Sends the request, and suspends the task while the port has no room.
    /// - Parameters:
    ///   - remote: The port.
    ///   - message: The request. Its own `replyPort` is not sent.
    ///   - whenDone: Gets the reply.
    /// - Throws: ``PortError`` or `CancellationError`, when the request was not sent.
    package nonisolated(nonsending) convenience init(
        of remote: RemoteMessagePort, _ message: MachPort.Message, whenDone: @escaping Handler
    ) async throws {
        let channel = remote.sendRight.channel
        let request = try Self.request(to: channel)
        try await channel.send(request.outgoing(message), before: .distantFuture)
        self.init(request, whenDone)
    }

    private static func request(to channel: SendChannel, _ replyLimit: Int? = nil) throws(PortError) -> OpenRequest {
        try Fork.check()
        return try OpenRequest(to: channel, isForTasks: true, replyLimit: replyLimit)
    }

    /// Whether there is a reply or an error.
    package var isDone: Bool { request.pending.outcome.value != nil }

    /// The reply.
    /// - Throws: ``PortError``: `receiveTimedOut` before ``isDone``, or the error in place of the reply.
    package func message() throws(PortError) -> MachPort.Message { try request.reply(request.pending.outcome.value) }
}
