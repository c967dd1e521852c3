import RunLoops

/// A port that answers requests. The corresponding CF function is `CFMessagePortCreateLocal`.
///
///     let server = try LocalMessagePort(name: "com.example.echo") { id, data in data }
///     try server.schedule(in: .current)
///     try ThreadRunLoop.current.run()
public final class LocalMessagePort: Sendable {
    /// Answers a request by returning data, or none. The corresponding CF type is `CFMessagePortCallBack`.
    public typealias DataHandler = @Sendable (_ id: UInt32, _ data: [UInt8]?) -> [UInt8]?

    /// Takes a request, to answer it now or later, or not at all.
    public typealias RequestHandler = @Sendable (MessagePortRequest) -> Void

    private let port: MachPort

    /// The name that the port was made with. The corresponding CF function is `CFMessagePortGetName`.
    public let name: String?

    /// Makes a port whose handler answers at once.
    ///
    /// - Parameters:
    ///   - name: The name by which others find it; nil for none.
    ///   - nameServer: Where the name is registered.
    ///   - handler: Called on the loops that the port is scheduled in. What it returns is sent to the asker; to one who
    ///     wants no reply, nothing is.
    /// - Throws: ``PortError``, as ``PortNameServer/register(_:name:)``.
    public convenience init(
        name: String? = nil, nameServer: PortNameServer = .shared, handler: @escaping DataHandler
    ) throws(PortError) {
        try self.init(
            name: name, nameServer: nameServer,
            requestHandler: { request in
                let answer = handler(request.id, request.data)
                do throws(PortError) {
                    try request.replyRight?.reply(with: answer)
                } catch {
                    log.info("a reply could not be sent: \(error)")
                }
            })
    }

    /// Makes a port whose handler is given a right to reply, to use when it likes.
    ///
    /// - Parameters:
    ///   - name: The name by which others find it; nil for none.
    ///   - nameServer: Where the name is registered.
    ///   - requestHandler: Called on the loops that the port is scheduled in.
    /// - Throws: ``PortError``, as ``PortNameServer/register(_:name:)``.
    public init(
        name: String? = nil, nameServer: PortNameServer = .shared, requestHandler: @escaping RequestHandler
    ) throws(PortError) {
        self.name = name
        port = try MachPort(nameServer: nameServer, handlers: .init { requestHandler(MessagePortRequest($0)) })
        if let name { try nameServer.register(port, name: name) }
    }

    /// The right to send to it, for those who cannot or need not look it up by name.
    public var sendRight: MachPort.SendRight { port.sendRight }

    /// Has a loop handle requests in a mode. The corresponding CF function is `CFMessagePortCreateRunLoopSource`.
    public func schedule(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) throws(PortError) {
        try port.schedule(in: loop, forMode: mode)
    }

    /// Takes the port out of a loop's mode.
    public func remove(from loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) {
        port.remove(from: loop, forMode: mode)
    }

    /// Whether the port takes requests. The corresponding CF function is `CFMessagePortIsValid`.
    public var isValid: Bool { port.isValid }

    /// Ends the port for good, and frees its name; requests that wait are refused.
    /// The corresponding CF function is `CFMessagePortInvalidate`.
    public func invalidate() { port.invalidate() }

    /// Calls a handler when the port becomes invalid: at once when it is already.
    /// The corresponding CF function is `CFMessagePortSetInvalidationCallBack`.
    public func onInvalidation(_ handler: @escaping @Sendable () -> Void) { port.onInvalidation(handler) }
}

/// A request that has come to a ``LocalMessagePort``.
public struct MessagePortRequest: Sendable {
    /// What was sent.
    public let message: MachPort.Message

    /// The right to answer; nil when the sender wants no reply.
    /// When the last copy of it is let go of unused, the asker is told that there will be no answer.
    public let replyRight: ReplyRight?

    init(_ frame: ReceivedFrame) {
        message = MachPort.Message(frame)
        replyRight = ReplyRight(frame)
    }

    /// The sender's number for what the request is about.
    public var id: UInt32 { message.id }

    /// The data; nil when the request has none, which is not the same as no bytes.
    public var data: [UInt8]? { message.withBytes { $0.withUnsafeBytes { Array($0) } } }
}
