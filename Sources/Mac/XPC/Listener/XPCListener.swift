import Dispatch
import Ports

/// Takes requests for sessions, from the processes of the same user that know its name or have its endpoint.
///
///     import Dispatch
///     import XPC
///
///     struct Question: Codable { var text: String }
///     struct Answer: Codable { var text: String }
///
///     let listener = try XPCListener(service: "com.example.answers") { request in
///         request.accept { (question: Question) in Answer(text: "You asked: \(question.text)") }
///     }
///     dispatchMain()
///
/// An active listener works until ``cancel()``, also when nobody refers to it. Its sessions outlive it. Any thread may
/// call all methods. The corresponding C type is `xpc_listener_t`.
public final class XPCListener: Sendable {
    /// The options of a new listener.
    public struct InitializationOptions: OptionSet, Sendable {
        /// The options as bits.
        public let rawValue: UInt64

        /// Makes options of bits.
        public init(rawValue: UInt64) { self.rawValue = rawValue }

        /// No options: the listener is active at once.
        public static let none: InitializationOptions = []
        /// The listener begins with ``XPCListener/activate()``. Requests for sessions wait.
        public static let inactive = InitializationOptions(rawValue: 1)
    }

    let core: ListenerCore

    /// The listener without its name: other processes get it in messages, and make sessions with it.
    public let endpoint: XPCEndpoint

    private init(_ core: ListenerCore, _ endpoint: XPCEndpoint) { (self.core, self.endpoint) = (core, endpoint) }

    convenience init(
        name: String?, nameServer: PortNameServer, _ settings: ListenerSettings, _ options: InitializationOptions,
        _ handler: @escaping ListenerCore.SessionHandler
    ) throws(XPCRichError) {
        let core = ListenerCore(settings, handler)
        do throws(PortError) {
            self.init(core, XPCEndpoint(try core.makePort(name: name, nameServer)))
        } catch {
            throw XPCRichError(error)
        }
        if !options.contains(.inactive) { try core.activate() }
    }

    // MARK: Listeners with names

    /// Makes a listener with a name.
    /// - Parameters:
    ///   - service: The name by which clients find the listener.
    ///   - targetQueue: The target of the queues on which the handlers of the listener and its sessions are called; nil
    ///     for none. Each session has a serial queue of its own.
    ///   - options: The options.
    ///   - incomingSessionHandler: Accepts or rejects each request for a session.
    /// - Throws: `XPCRichError` when another live process has the name, or the directory of names cannot be used.
    @preconcurrency
    public convenience init(
        service: String, targetQueue: DispatchQueue? = nil, options: InitializationOptions = .none,
        incomingSessionHandler: @escaping @Sendable (IncomingSessionRequest) -> IncomingSessionRequest.Decision
    ) throws {
        try self.init(
            name: service, nameServer: .shared, ListenerSettings(targetQueue: targetQueue), options,
            incomingSessionHandler)
    }

    /// Makes a listener with a name, whose clients have to meet a requirement.
    /// - Parameters:
    ///   - service: The name by which clients find the listener.
    ///   - targetQueue: The target of the queues on which the handlers of the listener and its sessions are called; nil
    ///     for none. Each session has a serial queue of its own.
    ///   - options: The options.
    ///   - requirement: Checked before each session and for each message.
    ///   - incomingSessionHandler: Accepts or rejects each request for a session.
    /// - Throws: `XPCRichError` when another live process has the name, or the directory of names cannot be used.
    @preconcurrency
    public convenience init(
        service: String, targetQueue: DispatchQueue? = nil, options: InitializationOptions = .none,
        requirement: XPCPeerRequirement,
        incomingSessionHandler: @escaping @Sendable (IncomingSessionRequest) -> IncomingSessionRequest.Decision
    ) throws {
        try self.init(
            name: service, nameServer: .shared, ListenerSettings(targetQueue: targetQueue, requirement: requirement),
            options, incomingSessionHandler)
    }

    // MARK: Anonymous listeners

    /// Makes a listener without a name, which clients reach by its ``endpoint``. When no port can be made, because no
    /// descriptor is left, sessions with the endpoint throw the reason.
    /// - Parameters:
    ///   - targetQueue: The target of the queues on which the handlers of the listener and its sessions are called; nil
    ///     for none. Each session has a serial queue of its own.
    ///   - options: The options.
    ///   - incomingSessionHandler: Accepts or rejects each request for a session.
    @preconcurrency
    public convenience init(
        targetQueue: DispatchQueue? = nil, options: InitializationOptions = .none,
        incomingSessionHandler: @escaping @Sendable (IncomingSessionRequest) -> IncomingSessionRequest.Decision
    ) {
        self.init(anonymous: ListenerSettings(targetQueue: targetQueue), options, incomingSessionHandler)
    }

    /// Makes a listener without a name, whose clients have to meet a requirement. When no port can be made, because no
    /// descriptor is left, sessions with the endpoint throw the reason.
    /// - Parameters:
    ///   - targetQueue: The target of the queues on which the handlers of the listener and its sessions are called; nil
    ///     for none. Each session has a serial queue of its own.
    ///   - options: The options.
    ///   - requirement: Checked before each session and for each message.
    ///   - incomingSessionHandler: Accepts or rejects each request for a session.
    @preconcurrency
    public convenience init(
        targetQueue: DispatchQueue? = nil, options: InitializationOptions = .none, requirement: XPCPeerRequirement,
        incomingSessionHandler: @escaping @Sendable (IncomingSessionRequest) -> IncomingSessionRequest.Decision
    ) {
        let settings = ListenerSettings(targetQueue: targetQueue, requirement: requirement)
        self.init(anonymous: settings, options, incomingSessionHandler)
    }

    private convenience init(
        anonymous settings: ListenerSettings, _ options: InitializationOptions,
        _ handler: @escaping ListenerCore.SessionHandler
    ) {
        let core = ListenerCore(settings, handler)
        var endpoint: XPCEndpoint
        do {
            endpoint = XPCEndpoint(try core.makePort(name: nil, .shared))
            if !options.contains(.inactive) { try core.activate() }
        } catch {
            endpoint = XPCEndpoint(missing: XPCRichError(error))
        }
        self.init(core, endpoint)
    }

    // MARK: Life

    /// Begins an inactive listener.
    /// - Throws: `XPCRichError` when the listener is active already, or was cancelled.
    public func activate() throws { try core.activate() }

    /// Ends the listener: its name is free, and it takes no more requests for sessions. Its sessions go on.
    public func cancel() { core.cancel() }

    // MARK: Settings of an inactive listener

    /// Sets the target of the queues on which the handlers of the listener and its sessions are called.
    public func setTargetQueue(_ targetQueue: DispatchQueue) { core.setTargetQueue(targetQueue) }

    /// Sets the condition on the clients of further sessions.
    public func setPeerRequirement(_ requirement: XPCPeerRequirement) { core.setRequirement(requirement) }
}
