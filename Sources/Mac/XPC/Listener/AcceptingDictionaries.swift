extension XPCListener.IncomingSessionRequest {
    /// Accepts the session, with a handler of dictionaries.
    /// - Parameters:
    ///   - incomingMessageHandler: Takes each message. The result is the reply; nil for none, or a later one.
    ///   - cancellationHandler: Called once, when the session has ended.
    @preconcurrency
    public func accept(
        incomingMessageHandler: @escaping @Sendable (XPCDictionary) -> XPCDictionary?,
        cancellationHandler: (@Sendable (XPCRichError) -> Void)? = nil
    ) -> Decision {
        decision(XPCDictionary.decoding(for: incomingMessageHandler), cancellationHandler).0
    }

    /// Accepts the session, with a handler of dictionaries, and returns it, too: it becomes active when the listener's
    /// handler returns.
    @preconcurrency
    public func accept(
        incomingMessageHandler: @escaping @Sendable (XPCDictionary) -> XPCDictionary?,
        cancellationHandler: (@Sendable (XPCRichError) -> Void)? = nil
    ) -> (Decision, XPCSession) {
        decision(XPCDictionary.decoding(for: incomingMessageHandler), cancellationHandler)
    }

    /// Accepts the session, with an object for its dictionaries and its end.
    /// - Parameter inactiveSessionHandler: Makes the object. The session becomes active when the listener's handler
    ///   returns.
    public func accept<Handler: XPCPeerHandler>(
        _ inactiveSessionHandler: (XPCSession) -> Handler
    ) -> Decision where Handler.Input == XPCDictionary, Handler.Output == XPCDictionary {
        decision(inactiveSessionHandler) { handler in
            XPCDictionary.decoding { handler.handleIncomingRequest($0) }
        }
    }
}
