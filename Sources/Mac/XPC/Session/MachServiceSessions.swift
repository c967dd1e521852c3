import Dispatch

// The sessions with a listener that has a name. Apple's module has each initializer twice: with a requirement, and without.

extension XPCSession {
    /// Makes a session with a listener that has a name.
    /// - Parameters:
    ///   - machService: The name of the listener.
    ///   - targetQueue: The target of the serial queue on which the handlers are called; nil for none.
    ///   - options: The options.
    ///   - requirement: A condition on the peer, checked before the first message, and for each one; nil for none.
    ///   - cancellationHandler: Called once, when the session has ended.
    /// - Throws: `XPCRichError` when the session cannot begin: see ``XPCSession/activate()``.
    @preconcurrency
    public convenience init(
        machService: String, targetQueue: DispatchQueue? = nil, options: InitializationOptions = .none,
        requirement: XPCPeerRequirement? = nil, cancellationHandler: (@Sendable (XPCRichError) -> Void)? = nil
    ) throws {
        try self.init(
            to: .service(machService, .shared), targetQueue, options, requirement: requirement,
            cancellation: cancellationHandler)
    }

    /// Makes a session with a listener that has a name; with a handler of typed messages.
    /// - Parameters:
    ///   - machService: The name of the listener.
    ///   - targetQueue: The target of the serial queue on which the handlers are called; nil for none.
    ///   - options: The options.
    ///   - requirement: A condition on the peer, checked before the first message, and for each one; nil for none.
    ///   - incomingMessageHandler: Takes each message. Its result is the reply; nil for none.
    ///   - cancellationHandler: Called once, when the session has ended.
    /// - Throws: `XPCRichError` when the session cannot begin: see ``XPCSession/activate()``.
    @preconcurrency
    public convenience init<Message: Decodable>(
        machService: String, targetQueue: DispatchQueue? = nil, options: InitializationOptions = .none,
        requirement: XPCPeerRequirement? = nil,
        incomingMessageHandler: (@Sendable (Message) -> (any Encodable)?)? = nil,
        cancellationHandler: (@Sendable (XPCRichError) -> Void)? = nil
    ) throws {
        try self.init(
            to: .service(machService, .shared), targetQueue, options, requirement: requirement,
            incoming: incomingMessageHandler.map { TypedHandler.decoding(for: $0) }, cancellation: cancellationHandler)
    }

    /// Makes a session with a listener that has a name; with a handler of messages as they are received.
    /// - Parameters:
    ///   - machService: The name of the listener.
    ///   - targetQueue: The target of the serial queue on which the handlers are called; nil for none.
    ///   - options: The options.
    ///   - requirement: A condition on the peer, checked before the first message, and for each one; nil for none.
    ///   - incomingMessageHandler: Takes each message. Its result is the reply; nil for none.
    ///   - cancellationHandler: Called once, when the session has ended.
    /// - Throws: `XPCRichError` when the session cannot begin: see ``XPCSession/activate()``.
    @preconcurrency
    public convenience init(
        machService: String, targetQueue: DispatchQueue? = nil, options: InitializationOptions = .none,
        requirement: XPCPeerRequirement? = nil,
        incomingMessageHandler: (@Sendable (XPCReceivedMessage) -> (any Encodable)?)? = nil,
        cancellationHandler: (@Sendable (XPCRichError) -> Void)? = nil
    ) throws {
        try self.init(
            to: .service(machService, .shared), targetQueue, options, requirement: requirement,
            incoming: incomingMessageHandler, cancellation: cancellationHandler)
    }

    /// Makes a session with a listener that has a name; with a handler of dictionaries.
    /// - Parameters:
    ///   - machService: The name of the listener.
    ///   - targetQueue: The target of the serial queue on which the handlers are called; nil for none.
    ///   - options: The options.
    ///   - requirement: A condition on the peer, checked before the first message, and for each one; nil for none.
    ///   - incomingMessageHandler: Takes each message. Its result is the reply; nil for none.
    ///   - cancellationHandler: Called once, when the session has ended.
    /// - Throws: `XPCRichError` when the session cannot begin: see ``XPCSession/activate()``.
    @preconcurrency
    public convenience init(
        machService: String, targetQueue: DispatchQueue? = nil, options: InitializationOptions = .none,
        requirement: XPCPeerRequirement? = nil,
        incomingMessageHandler: (@Sendable (XPCDictionary) -> XPCDictionary?)? = nil,
        cancellationHandler: (@Sendable (XPCRichError) -> Void)? = nil
    ) throws {
        try self.init(
            to: .service(machService, .shared), targetQueue, options, requirement: requirement,
            incoming: incomingMessageHandler.map { XPCDictionary.decoding(for: $0) }, cancellation: cancellationHandler)
    }
}
