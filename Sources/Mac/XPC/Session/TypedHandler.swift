import Ports

/// A handler of typed messages. Not a closure, which could not hold the type of the messages and be called on any thread.
final class TypedHandler<Message: Decodable>: Sendable {
    private let handler: @Sendable (Message) -> (any Encodable)?

    private init(_ handler: @escaping @Sendable (Message) -> (any Encodable)?) { self.handler = handler }

    /// Decodes each message for the handler. When a message cannot be decoded, its sender gets an error, and a message
    /// without a reply is dropped with a line in the log.
    static func decoding(
        for handler: @escaping @Sendable (Message) -> (any Encodable)?
    ) -> SessionState.IncomingHandler { TypedHandler(handler).received }

    private func received(_ message: XPCReceivedMessage) -> (any Encodable)? {
        guard let value = message.decodeOrFail(as: Message.self) else { return nil }
        return handler(value)
    }
}

extension XPCReceivedMessage {
    /// The value; nil when it cannot be decoded, which the sender learns.
    func decodeOrFail<Value: Decodable>(as type: Value.Type) -> Value? {
        do {
            return try decode(as: type)
        } catch {
            let text = "the message is no \(type): \(error)"
            if expectsReply { fail(text) } else { log.warning("a message without a reply was dropped: \(text)") }
            return nil
        }
    }
}
