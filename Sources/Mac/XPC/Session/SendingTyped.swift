import Ports
import RunLoops
import TypedPorts

extension XPCSession {
    /// Sends a value, and wants no reply. The call does not wait: while the other end has no room, up to 100,000 messages of
    /// 64 MiB together wait in this process.
    /// - Throws: `XPCRichError` when the session has ended, or too many messages wait; `EncodingError`.
    public func send<Message: Encodable>(_ message: Message) throws {
        try core.send(CBORCoder().message(id: SessionMessage.message.rawValue, message))
    }

    /// Sends a value. The handler gets the decoded reply, or the error in its place, after the messages that
    /// the other end has sent before. The call does not wait.
    /// - Throws: `XPCRichError` when the session has ended, or too many messages wait for room; `EncodingError`. Then the handler is not called.
    @preconcurrency
    public func send<Message: Encodable, Reply: Decodable>(
        _ message: Message, replyHandler: @escaping @Sendable (Result<Reply, any Error>) -> Void
    ) throws {
        try ask(message, TypedReplyHandler(replyHandler).received)
    }

    /// Sends a value. The handler gets the reply, or the error in its place, after the messages that the other
    /// end has sent before. The call does not wait.
    /// - Throws: `XPCRichError` when the session has ended, or too many messages wait for room; `EncodingError`. Then the handler is not called.
    @preconcurrency
    public func send<Message: Encodable>(
        _ message: Message, replyHandler: @escaping @Sendable (Result<XPCReceivedMessage, XPCRichError>) -> Void
    ) throws {
        try ask(message, replyHandler)
    }

    /// Sends a value, and blocks until the reply. There is no deadline: the end of the session, and
    /// ``cancel(reason:)`` on another thread, end the wait.
    /// - Throws: `XPCRichError` in place of the reply; `EncodingError`, `DecodingError`.
    public func sendSync<Message: Encodable, Reply: Decodable>(_ message: Message) throws -> Reply {
        let reply: XPCReceivedMessage = try sendSync(message)
        return try reply.decode(as: Reply.self)
    }

    /// Sends a value, and blocks until the reply. There is no deadline: the end of the session, and
    /// ``cancel(reason:)`` on another thread, end the wait.
    /// - Throws: `XPCRichError` in place of the reply; `EncodingError`.
    public func sendSync<Message: Encodable>(_ message: Message) throws -> XPCReceivedMessage {
        let message = try CBORCoder().message(id: SessionMessage.sync.rawValue, message)
        return XPCReceivedMessage(reply: try core.askAndWait(message))
    }

    private func ask(
        _ message: some Encodable, _ handler: @escaping @Sendable (Result<XPCReceivedMessage, XPCRichError>) -> Void
    ) throws {
        let message = try CBORCoder().message(id: SessionMessage.message.rawValue, message)
        try core.ask(message, .handler { outcome in handler(outcome.map { XPCReceivedMessage(reply: $0) }) })
    }
}

extension SessionCore {
    /// Sends a request, and blocks until its outcome.
    func askAndWait(_ message: MachPort.Message) throws(XPCRichError) -> MachPort.Message {
        let wait = OneShot<SessionState.Outcome>()
        try ask(message, .thread(wait))
        return try wait.block().get()
    }
}

/// A handler of typed replies. Not a closure, which could not hold the type of the replies and be called on any thread.
private final class TypedReplyHandler<Reply: Decodable>: Sendable {
    private let handler: @Sendable (Result<Reply, any Error>) -> Void

    init(_ handler: @escaping @Sendable (Result<Reply, any Error>) -> Void) { self.handler = handler }

    @Sendable func received(_ reply: Result<XPCReceivedMessage, XPCRichError>) {
        handler(Result { try reply.get().decode(as: Reply.self) })
    }
}
