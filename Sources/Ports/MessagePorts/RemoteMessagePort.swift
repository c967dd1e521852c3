import RunLoops

/// A port of another process, or of this one, to ask. The corresponding CF function is `CFMessagePortCreateRemote`.
///
///     let echo = try RemoteMessagePort(name: "com.example.echo")
///     let answer = try echo.request(id: 1, Array("hello".utf8))
///
/// Any number of threads may use one at once.
public struct RemoteMessagePort: Sendable {
    /// The mode in which an asking thread waits when it names no other: it has nothing but replies in it.
    private static let privateMode: ThreadRunLoop.Mode = "swift-ports replies"

    /// The right to send to it.
    public let sendRight: MachPort.SendRight

    /// Finds a port by its name.
    ///
    /// - Throws: ``PortError``, as ``PortNameServer/port(forName:before:)``.
    public init(name: String, nameServer: PortNameServer = .shared) throws(PortError) {
        sendRight = try nameServer.port(forName: name)
    }

    /// The port of a right that came another way.
    public init(_ sendRight: MachPort.SendRight) { self.sendRight = sendRight }

    /// Whether the port is not known to be invalid. The corresponding CF function is `CFMessagePortIsValid`.
    public var isValid: Bool { sendRight.isValid }

    /// Sends without wanting a reply. The corresponding CF function is `CFMessagePortSendRequest` with no reply mode.
    ///
    /// - Parameters:
    ///   - id: What it is about.
    ///   - data: The data; nil for none.
    ///   - timeout: How long to wait for room at the port.
    /// - Throws: ``PortError``.
    public func send(id: UInt32, _ data: [UInt8]? = nil, timeout: Duration = .seconds(10)) throws(PortError) {
        try sendRight.send(Self.message(id, data), before: .now + timeout)
    }

    /// Sends a request and waits for the reply. The corresponding CF function is `CFMessagePortSendRequest`.
    ///
    /// While it waits, the calling thread's loop runs in the reply mode: what else there is in that mode goes on.
    /// - Parameters:
    ///   - id: What it is about.
    ///   - data: The data; nil for none.
    ///   - sendTimeout: How long to wait for room at the port.
    ///   - replyTimeout: How long to wait for the reply after that.
    ///   - replyMode: The mode to wait in; nil for one that has nothing else in it.
    /// - Returns: The reply's data; nil when the server replied without data.
    /// - Throws: ``PortError``: `sendTimedOut`, `receiveTimedOut`, `isInvalid`, `becameInvalid`, `unanswered`…
    @available(*, noasync, message: "it blocks its thread")
    public func request(
        id: UInt32, _ data: [UInt8]? = nil, sendTimeout: Duration = .seconds(10),
        replyTimeout: Duration = .seconds(10), replyMode: ThreadRunLoop.Mode? = nil
    ) throws(PortError) -> [UInt8]? {
        try PortProcess.checkUsable()
        let replies = PortProcess.current.replies
        let loop = ThreadRunLoop.current
        let channel = sendRight.channel
        let port = try replies.port(for: channel)
        let pending = PendingReply(to: channel.id, on: loop)
        let number = replies.add(pending)
        defer { replies.remove(number) }

        var message = Self.message(id, data)
        message.replyPort = port.sendRight
        var frame = try Encoding.frame(message, kind: .request, request: number, to: channel)
        try channel.send(&frame, before: .now + sendTimeout)

        // The private mode keeps the reply port, which costs two system calls to come and go.
        let mode = replyMode ?? Self.privateMode
        // A request nested in another's wait leaves it to the outer one.
        let isScheduled = port.isScheduled(in: loop, forMode: mode)
        if !isScheduled { try port.schedule(in: loop, forMode: mode) }
        defer { if replyMode != nil, !isScheduled { port.remove(from: loop, forMode: mode) } }
        loop.add(pending.source, forMode: mode)
        defer { pending.source.invalidate() }

        let deadline = MonotonicInstant.now + replyTimeout
        while true {
            if let result = pending.result { return Self.data(in: try result.get()) }
            guard !deadline.hasPassed else { throw .receiveTimedOut(port: channel.description) }
            let seconds = MonotonicInstant.now.duration(to: deadline) / .seconds(1)
            let result = try runLoop { () throws(RunLoopError) in
                try loop.runInMode(mode, seconds: seconds, returnAfterSourceHandled: true)
            }
            // The mode has a source of ours: it is the thread that was told to end.
            if result == .finished, pending.result == nil {
                throw .unavailable(reason: "the loop of the asking thread was stopped for good")
            }
        }
    }

    private static func message(_ id: UInt32, _ data: [UInt8]?) -> MachPort.Message {
        MachPort.Message(id: id, data.map { [.bytes($0)] } ?? [])
    }

    private static func data(in reply: ReceivedFrame) -> [UInt8]? {
        reply.withBytes(ofComponent: 0) { $0.withUnsafeBytes { Array($0) } }
    }
}
