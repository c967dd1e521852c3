/// Takes the messages of one session of a listener, and its end.
///
/// A peer handler's input is a `Decodable` type or ``XPCReceivedMessage``, with `any Encodable` as the output, or
/// ``XPCDictionary`` for both.
@preconcurrency
public protocol XPCPeerHandler<Input, Output>: Sendable {
    /// The messages.
    associatedtype Input
    /// The replies.
    associatedtype Output

    /// Takes a message. The result is the reply; nil for none, or a later one.
    func handleIncomingRequest(_ message: Input) -> Output?

    /// Called once, when the session has ended.
    func handleCancellation(error: XPCRichError)
}

extension XPCPeerHandler {
    /// Does nothing.
    public func handleCancellation(error: XPCRichError) {}
}

/// A peer handler of typed messages. Not a closure, which could not hold the type of the messages and be called on any
/// thread.
final class TypedPeerHandler<Handler: XPCPeerHandler>: Sendable
where Handler.Input: Decodable, Handler.Output == any Encodable {
    private let handler: Handler

    init(_ handler: Handler) { self.handler = handler }

    @Sendable func received(_ message: XPCReceivedMessage) -> (any Encodable)? {
        guard let value = message.decodeOrFail(as: Handler.Input.self) else { return nil }
        return handler.handleIncomingRequest(value)
    }
}
