import Dispatch

// The sessions with the listener of an endpoint. Apple's module has the same initializers.

extension XPCSession {
    /// Makes a session with the listener of an endpoint.
    /// - Parameters:
    ///   - endpoint: The listener, from a message.
    ///   - targetQueue: The target of the serial queue on which the handlers are called; nil for none.
    ///   - options: The options.
    ///   - cancellationHandler: Called once, when the session has ended.
    /// - Throws: `XPCRichError` when the session cannot begin: see ``XPCSession/activate()``.
    @preconcurrency
    public convenience init(
        endpoint: XPCEndpoint, targetQueue: DispatchQueue? = nil, options: InitializationOptions = .none,
        cancellationHandler: (@Sendable (XPCRichError) -> Void)? = nil
    ) throws {
        try self.init(
            to: .endpoint(endpoint), targetQueue, options, cancellation: cancellationHandler)
    }

    /// Makes a session with the listener of an endpoint; with a handler of typed messages.
    /// - Parameters:
    ///   - endpoint: The listener, from a message.
    ///   - targetQueue: The target of the serial queue on which the handlers are called; nil for none.
    ///   - options: The options.
    ///   - incomingMessageHandler: Takes each message. Its result is the reply; nil for none.
    ///   - cancellationHandler: Called once, when the session has ended.
    /// - Throws: `XPCRichError` when the session cannot begin: see ``XPCSession/activate()``.
    @preconcurrency
    public convenience init<Message: Decodable>(
        endpoint: XPCEndpoint, targetQueue: DispatchQueue? = nil, options: InitializationOptions = .none,
        incomingMessageHandler: (@Sendable (Message) -> (any Encodable)?)? = nil,
        cancellationHandler: (@Sendable (XPCRichError) -> Void)? = nil
    ) throws {
        try self.init(
            to: .endpoint(endpoint), targetQueue, options,
            incoming: incomingMessageHandler.map { TypedHandler.decoding(for: $0) }, cancellation: cancellationHandler)
    }

    /// Makes a session with the listener of an endpoint; with a handler of messages as they are received.
    /// - Parameters:
    ///   - endpoint: The listener, from a message.
    ///   - targetQueue: The target of the serial queue on which the handlers are called; nil for none.
    ///   - options: The options.
    ///   - incomingMessageHandler: Takes each message. Its result is the reply; nil for none.
    ///   - cancellationHandler: Called once, when the session has ended.
    /// - Throws: `XPCRichError` when the session cannot begin: see ``XPCSession/activate()``.
    @preconcurrency
    public convenience init(
        endpoint: XPCEndpoint, targetQueue: DispatchQueue? = nil, options: InitializationOptions = .none,
        incomingMessageHandler: (@Sendable (XPCReceivedMessage) -> (any Encodable)?)? = nil,
        cancellationHandler: (@Sendable (XPCRichError) -> Void)? = nil
    ) throws {
        try self.init(
            to: .endpoint(endpoint), targetQueue, options, incoming: incomingMessageHandler,
            cancellation: cancellationHandler)
    }

    /// Makes a session with the listener of an endpoint; with a handler of dictionaries.
    /// - Parameters:
    ///   - endpoint: The listener, from a message.
    ///   - targetQueue: The target of the serial queue on which the handlers are called; nil for none.
    ///   - options: The options.
    ///   - incomingMessageHandler: Takes each message. Its result is the reply; nil for none.
    ///   - cancellationHandler: Called once, when the session has ended.
    /// - Throws: `XPCRichError` when the session cannot begin: see ``XPCSession/activate()``.
    @preconcurrency
    public convenience init(
        endpoint: XPCEndpoint, targetQueue: DispatchQueue? = nil, options: InitializationOptions = .none,
        incomingMessageHandler: (@Sendable (XPCDictionary) -> XPCDictionary?)? = nil,
        cancellationHandler: (@Sendable (XPCRichError) -> Void)? = nil
    ) throws {
        try self.init(
            to: .endpoint(endpoint), targetQueue, options,
            incoming: incomingMessageHandler.map { XPCDictionary.decoding(for: $0) }, cancellation: cancellationHandler)
    }
}
