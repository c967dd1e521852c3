import Dispatch
import Ports

/// One end of a connection between two processes: a client's, made with the name or the endpoint of a listener, or the
/// listener's, which ``XPCListener/IncomingSessionRequest`` accepts.
///
///     import XPC
///
///     struct Question: Codable { var text: String }
///     struct Answer: Codable { var text: String }
///
///     let session = try XPCSession(machService: "com.example.answers")
///     let answer: Answer = try session.sendSync(Question(text: "Who?"))
///     session.cancel(reason: "done")
///
/// Both ends send messages, which arrive in order. The handlers of a session are called one at a time, on its own serial
/// queue, whose target is the `targetQueue`. A session lasts until one end cancels it or its process ends; then the
/// cancellation handler is called once. A client's session that nobody refers to ends after its last reply. Any thread
/// may call all methods. The corresponding C type is `xpc_session_t`.
public final class XPCSession: Sendable {
    /// The options of a new session.
    public struct InitializationOptions: OptionSet, Sendable {
        /// The options as bits.
        public let rawValue: UInt64

        /// Makes options of bits.
        public init(rawValue: UInt64) { self.rawValue = rawValue }

        /// No options: the session is active at once.
        public static let none: InitializationOptions = []
        /// The session begins with ``XPCSession/activate()``.
        public static let inactive = InitializationOptions(rawValue: 1)
        /// No effect on Linux, where each user has one directory of names.
        public static let privileged = InitializationOptions(rawValue: 2)
    }

    let core: SessionCore
    /// Where a client's session goes; nil for a listener's.
    private let target: SessionTarget?
    /// The name of the listener that a client's session goes to.
    var service: String? { target?.service }

    /// Makes a client's session.
    convenience init(
        to target: SessionTarget, _ targetQueue: DispatchQueue?, _ options: InitializationOptions,
        requirement: XPCPeerRequirement? = nil, incoming: SessionState.IncomingHandler? = nil,
        cancellation: SessionState.CancellationHandler?
    ) throws {
        var state = SessionState()
        state.targetQueue = targetQueue
        state.requirement = requirement
        state.incoming = incoming
        state.cancellation = cancellation
        self.init(SessionCore(peer: target.name, state), target: target)
        if !options.contains(.inactive) { try activate() }
    }

    init(_ core: SessionCore, target: SessionTarget? = nil) { (self.core, self.target) = (core, target) }

    /// Begins a listener's session with the port of the client.
    /// - Returns: The right to send to the session.
    func accept(_ client: MachPort.SendRight) throws -> MachPort.SendRight {
        try core.accept(RemoteMessagePort(client), self)
    }

    deinit { if target != nil { core.release() } }

    // MARK: Life

    /// Begins an inactive session. Blocks until the listener's name is found, at most five seconds, and not until the
    /// listener has accepted the session: messages wait for that. When the listener refuses, or ends before, the
    /// cancellation handler is called.
    ///
    /// A session that a listener accepts becomes active when the listener's handler returns. The handler may activate it
    /// before. Then messages may be sent at once, and leave when the handler has returned.
    /// - Throws: `XPCRichError`, also for a session that is active already. A session that could not begin has ended.
    public func activate() throws {
        if let target { try core.connect(to: target) } else { try core.begin() }
    }

    /// Ends the session. Requests without a reply end with an error, and messages that wait for the listener's decision,
    /// or for room, are discarded. The cancellation handlers of both ends are called.
    public func cancel(reason: String) { core.cancel(reason: reason) }

    // MARK: Settings of an inactive session

    /// Sets the handler of typed messages. Its result is the reply; nil for none, or a later one.
    @preconcurrency
    public func setIncomingMessageHandler<Message: Decodable>(
        _ incomingMessageHandler: @escaping @Sendable (Message) -> (any Encodable)?
    ) {
        let handler = TypedHandler.decoding(for: incomingMessageHandler)
        core.configure { $0.incoming = handler }
    }

    /// Sets the handler of messages as they were received. Its result is the reply; nil for none, or a later one.
    @preconcurrency
    public func setIncomingMessageHandler(
        _ incomingMessageHandler: @escaping @Sendable (XPCReceivedMessage) -> (any Encodable)?
    ) {
        core.configure { $0.incoming = incomingMessageHandler }
    }

    /// Sets the handler that is called once, when the session has ended.
    @preconcurrency
    public func setCancellationHandler(_ cancellationHandler: @escaping @Sendable (XPCRichError) -> Void) {
        core.configure { $0.cancellation = cancellationHandler }
    }

    /// Sets the target of the queue on which the session's handlers are called.
    public func setTargetQueue(_ targetQueue: DispatchQueue) { core.configure { $0.targetQueue = targetQueue } }

    /// Sets the condition on the other end. A message that does not meet it ends the session.
    public func setPeerRequirement(_ requirement: XPCPeerRequirement) {
        core.configure { $0.requirement = requirement }
    }
}

extension XPCSession: CustomDebugStringConvertible {
    /// The other end.
    public var debugDescription: String { "session with \(core.peer)" }
}
