import Ports
import TypedPorts

extension XPCSession {
    /// Sends a dictionary, and wants no reply. The call does not wait: while the other end has no room, up to 100,000
    /// messages of 64 MiB together wait in this process.
    /// - Throws: `XPCRichError` when the session has ended, or too many messages wait; `EncodingError`.
    public func send(message: XPCDictionary) throws { try send(message.values) }

    /// Sends a dictionary. The handler gets the reply, or the error in its place, after the messages that the other end has
    /// sent before. The call does not wait.
    @preconcurrency
    public func send(
        message: XPCDictionary, replyHandler: @escaping @Sendable (Result<XPCDictionary, XPCRichError>) -> Void
    ) {
        do {
            try send(message.values) { (reply: Result<XPCReceivedMessage, XPCRichError>) in
                replyHandler(reply.flatMap(XPCDictionary.decoded))
            }
        } catch {
            let error = XPCRichError(error)
            core.perform { replyHandler(.failure(error)) }
        }
    }

    /// Sends a dictionary, and blocks until the reply. There is no deadline: the end of the session, and
    /// ``cancel(reason:)`` on another thread, end the wait.
    /// - Throws: `XPCRichError` in place of the reply; `EncodingError`.
    public func sendSync(message: XPCDictionary) throws -> XPCDictionary {
        try XPCDictionary.decoded(sendSync(message.values)).get()
    }

    /// Sets the handler of dictionaries. Its result is the reply; nil for none, or a later one.
    @preconcurrency
    public func setIncomingMessageHandler(
        _ incomingMessageHandler: @escaping @Sendable (XPCDictionary) -> XPCDictionary?
    ) {
        let handler = XPCDictionary.decoding(for: incomingMessageHandler)
        core.configure { $0.incoming = handler }
    }
}

extension XPCDictionary {
    /// The dictionary of a reply.
    fileprivate static func decoded(_ reply: XPCReceivedMessage) -> Result<XPCDictionary, XPCRichError> {
        do {
            return .success(XPCDictionary(try reply.decode(as: [String: XPCValue].self)))
        } catch {
            return .failure(XPCRichError("the reply is no dictionary: \(error)"))
        }
    }

    /// Makes the handler of received messages of a handler of dictionaries.
    static func decoding(
        for handler: @escaping @Sendable (XPCDictionary) -> XPCDictionary?
    ) -> SessionState.IncomingHandler {
        { message in
            guard let values = message.decodeOrFail(as: [String: XPCValue].self) else { return nil }
            return handler(XPCDictionary(values, origin: message))?.values
        }
    }
}
