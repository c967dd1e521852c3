import Ports

extension XPCListener {
    /// A client's request for a session, which the listener's handler accepts or rejects.
    public final class IncomingSessionRequest: Sendable {
        /// Whether the request was accepted. Only ``IncomingSessionRequest`` makes decisions.
        public struct Decision: Sendable {
            let session: Result<XPCSession, XPCRichError>
        }

        private let peer: String
        private let settings: ListenerSettings

        init(peer: String, _ settings: ListenerSettings) { (self.peer, self.settings) = (peer, settings) }

        /// Rejects the request. The client's session ends with an error that has the reason.
        public func reject(reason: String) -> Decision { Decision(session: .failure(XPCRichError(reason))) }

        // MARK: Closures

        /// Accepts the session, with a handler of typed messages.
        /// - Parameters:
        ///   - incomingMessageHandler: Takes each message. The result is the reply; nil for none.
        ///   - cancellationHandler: Called once, when the session has ended.
        @preconcurrency
        public func accept<Message: Decodable>(
            incomingMessageHandler: @escaping @Sendable (Message) -> (any Encodable)?,
            cancellationHandler: (@Sendable (XPCRichError) -> Void)? = nil
        ) -> Decision {
            decision(TypedHandler.decoding(for: incomingMessageHandler), cancellationHandler).0
        }

        /// Accepts the session, with a handler of messages as they are received.
        /// - Parameters:
        ///   - incomingMessageHandler: Takes each message. The result is the reply; nil for none, or a later one.
        ///   - cancellationHandler: Called once, when the session has ended.
        @preconcurrency
        public func accept(
            incomingMessageHandler: @escaping @Sendable (XPCReceivedMessage) -> (any Encodable)?,
            cancellationHandler: (@Sendable (XPCRichError) -> Void)? = nil
        ) -> Decision {
            decision(incomingMessageHandler, cancellationHandler).0
        }

        /// Accepts the session, with a handler of typed messages, and returns it, too: it becomes active when the
        /// listener's handler returns.
        @preconcurrency
        public func accept<Message: Decodable>(
            incomingMessageHandler: @escaping @Sendable (Message) -> (any Encodable)?,
            cancellationHandler: (@Sendable (XPCRichError) -> Void)? = nil
        ) -> (Decision, XPCSession) {
            decision(TypedHandler.decoding(for: incomingMessageHandler), cancellationHandler)
        }

        /// Accepts the session, with a handler of messages as they are received, and returns it, too: it becomes active
        /// when the listener's handler returns.
        @preconcurrency
        public func accept(
            incomingMessageHandler: @escaping @Sendable (XPCReceivedMessage) -> (any Encodable)?,
            cancellationHandler: (@Sendable (XPCRichError) -> Void)? = nil
        ) -> (Decision, XPCSession) {
            decision(incomingMessageHandler, cancellationHandler)
        }

        // MARK: Peer handlers

        /// Accepts the session, with an object for its typed messages and its end.
        /// - Parameter inactiveSessionHandler: Makes the object. The session becomes active when the listener's handler
        ///   returns.
        public func accept<Handler: XPCPeerHandler>(
            _ inactiveSessionHandler: (XPCSession) -> Handler
        ) -> Decision where Handler.Input: Decodable, Handler.Output == any Encodable {
            decision(inactiveSessionHandler) { TypedPeerHandler($0).received }
        }

        /// Accepts the session, with an object for its messages as they are received, and its end.
        /// - Parameter inactiveSessionHandler: Makes the object. The session becomes active when the listener's handler
        ///   returns.
        public func accept<Handler: XPCPeerHandler>(
            _ inactiveSessionHandler: (XPCSession) -> Handler
        ) -> Decision where Handler.Input == XPCReceivedMessage, Handler.Output == any Encodable {
            decision(inactiveSessionHandler) { handler in { handler.handleIncomingRequest($0) } }
        }

        // MARK: Decisions

        func decision(
            _ incoming: @escaping SessionState.IncomingHandler, _ cancellation: SessionState.CancellationHandler?
        ) -> (Decision, XPCSession) {
            var state = SessionState()
            state.targetQueue = settings.targetQueue
            state.requirement = settings.requirement
            state.observer = settings.observer
            state.incoming = incoming
            state.cancellation = cancellation
            let session = XPCSession(SessionCore(peer: peer, state))
            return (Decision(session: .success(session)), session)
        }

        func decision<Handler: XPCPeerHandler>(
            _ makeHandler: (XPCSession) -> Handler, _ incoming: (Handler) -> SessionState.IncomingHandler
        ) -> Decision {
            let (decision, session) = decision({ _ in nil }, nil)
            let handler = makeHandler(session)
            let messageHandler = incoming(handler)
            session.core.configure { state in
                state.incoming = messageHandler
                state.cancellation = { handler.handleCancellation(error: $0) }
            }
            return decision
        }
    }
}
