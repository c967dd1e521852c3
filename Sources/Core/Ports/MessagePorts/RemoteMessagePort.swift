import RunLoops

/// The asking side of a message port, for any thread. The corresponding CF function is `CFMessagePortCreateRemote`.
///
///     let echo = try RemoteMessagePort(name: "com.example.echo")
///     let answer = try echo.request(id: 1, Array("hello".utf8))
public struct RemoteMessagePort: Sendable, CustomStringConvertible {
    /// The right to send to the port.
    public let sendRight: MachPort.SendRight

    /// The name by which the port was found, if any. The corresponding CF function is `CFMessagePortGetName`.
    public let name: String?

    /// Finds a port by its name. Blocks until the port's owner answers, at most until the deadline.
    /// - Throws: ``PortError``: `nameNotFound` at once when nobody has the name; `cannotConnect`,
    ///   `incompatibleVersion`, or an error of the directory.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public init(
        name: String, nameServer: PortNameServer = .shared,
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) throws(PortError) {
        sendRight = try nameServer.port(forName: name, before: deadline)
        self.name = name
    }

    /// Finds a port by its name. Suspends the task until the port's owner answers, at most until the deadline.
    /// - Throws: ``PortError``: `nameNotFound` at once when nobody has the name; `cannotConnect`,
    ///   `incompatibleVersion`, or an error of the directory. `CancellationError`.
    public nonisolated(nonsending) init(
        name: String, nameServer: PortNameServer = .shared,
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) async throws {
        sendRight = try await nameServer.port(forName: name, before: deadline)
        self.name = name
    }

    /// Makes a remote port from a right.
    public init(_ sendRight: MachPort.SendRight) {
        self.sendRight = sendRight
        name = nil
    }

    /// The port in texts: its name and its owner.
    public var identity: PortIdentity { sendRight.identity }

    /// The text of the ``identity``.
    public var description: String { identity.description }

    /// False once the port is known to be invalid. The corresponding CF function is `CFMessagePortIsValid`.
    public var isValid: Bool { sendRight.isValid }

    /// Calls a handler when the port becomes invalid, or at once when it is invalid already. See
    /// ``MachPort/SendRight/onInvalidation(_:)``. The corresponding CF function is
    /// `CFMessagePortSetInvalidationCallBack`.
    public func onInvalidation(_ handler: @escaping @Sendable () -> Void) { sendRight.onInvalidation(handler) }

    /// Makes a port for several answers, in a directory that the asked process can certainly reach.
    package func makePort(queueLimit: Int) throws(PortError) -> MachPort {
        try MachPort(queueLimit: queueLimit, nameServer: reachableNameServer)
    }

    /// Makes a port for requests of the asked process, in a directory that this process can certainly reach.
    package func makeMessagePort(
        requestHandler: @escaping LocalMessagePort.RequestHandler
    ) throws(PortError) -> LocalMessagePort {
        try LocalMessagePort(nameServer: reachableNameServer, requestHandler: requestHandler)
    }

    private var reachableNameServer: PortNameServer {
        get throws(PortError) {
            let channel = sendRight.channel
            let runtime = try channel.retainedRuntime()
            let path = channel.isLocal ? runtime.directory : channel.path
            return PortNameServer(directory: path, runtime: runtime)
        }
    }

    // MARK: Sending

    /// Sends data, and blocks while the port has no room, at most for the timeout. The corresponding CF function is
    /// `CFMessagePortSendRequest` without a reply mode.
    /// - Throws: ``PortError``: `sendTimedOut`, `isInvalid`, `becameInvalid`, `messageTooLarge`, `cannotConnect`…
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func send(id: UInt32, _ data: [UInt8]? = nil, timeout: Duration = .seconds(10)) throws(PortError) {
        try sendRight.send(MachPort.Message(id: id, data: data), before: .now + timeout)
    }

    /// Sends data, and suspends the task while the port has no room, at most for the timeout.
    /// - Throws: ``PortError``: `sendTimedOut`, `isInvalid`, `becameInvalid`, `messageTooLarge`, `cannotConnect`…
    ///   `CancellationError`: nothing was sent.
    public nonisolated(nonsending) func send(
        id: UInt32, _ data: [UInt8]? = nil, timeout: Duration = .seconds(10)
    ) async throws {
        try await sendRight.send(MachPort.Message(id: id, data: data), before: .now + timeout)
    }

    // MARK: Requests

    /// Sends a request and waits for the reply, both within the timeout. The server learns when its asker has given up.
    /// - Parameters:
    ///   - id: A number for the subject of the request.
    ///   - data: The request's data; nil for none.
    ///   - timeout: The end of the wait for room at the port and for the reply.
    ///   - replyMode: The mode in which the calling thread's loop runs meanwhile, and serves its other items. Nil
    ///     stands for a mode without items.
    /// - Returns: The reply's data; nil when the server replied without data.
    /// - Throws: ``PortError``: `sendTimedOut` when nothing was sent, `receiveTimedOut`, `isInvalid`, `becameInvalid`,
    ///   `refused`, `unanswered`, `failed`…; `servedOnlyHere`, at once, when the wait would block the only loop or
    ///   queue that serves the port. Then `await` the request, serve the port in the reply mode, or on another thread.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func request(
        id: UInt32, _ data: [UInt8]? = nil, timeout: Duration = .seconds(10), replyMode: ThreadRunLoop.Mode? = nil
    ) throws(PortError) -> [UInt8]? {
        try request(MachPort.Message(id: id, data: data), timeout: timeout, replyMode: replyMode).data
    }

    /// Sends a request and waits for the reply. The corresponding CF function is `CFMessagePortSendRequest`.
    /// - Parameters:
    ///   - id: A number for the subject of the request.
    ///   - data: The request's data; nil for none.
    ///   - sendTimeout: The end of the wait for room at the port.
    ///   - replyTimeout: The end of the wait for the reply, after the request was sent.
    ///   - replyMode: The mode in which the calling thread's loop runs meanwhile, and serves its other items. Nil
    ///     stands for a mode without items.
    /// - Returns: The reply's data; nil when the server replied without data.
    /// - Throws: ``PortError``, as ``request(id:_:timeout:replyMode:)``.
    @available(*, noasync, message: "it blocks its thread; `try await` the form with one timeout")
    public func request(
        id: UInt32, _ data: [UInt8]? = nil, sendTimeout: Duration, replyTimeout: Duration,
        replyMode: ThreadRunLoop.Mode? = nil
    ) throws(PortError) -> [UInt8]? {
        let message = MachPort.Message(id: id, data: data)
        var isSent = false
        return try request(message, before: .now + sendTimeout, replyMode, &isSent) { .now + replyTimeout }.data
    }

    /// Sends a message of any components as a request, and waits for the reply, both within the timeout. The reply goes
    /// to a port of the library, so the message's own `replyPort` is not sent.
    /// - Throws: ``PortError``, as ``request(id:_:timeout:replyMode:)``.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func request(
        _ message: MachPort.Message, timeout: Duration = .seconds(10), replyMode: ThreadRunLoop.Mode? = nil
    ) throws(PortError) -> MachPort.Message {
        let deadline = MonotonicInstant.now + timeout
        var isSent = false
        return try request(message, before: deadline, replyMode, &isSent) { deadline }
    }

    /// Sends a request, and suspends the task until the reply comes, both within the timeout.
    /// - Returns: The reply's data; nil when the server replied without data.
    /// - Throws: ``PortError``: `sendTimedOut` when nothing was sent, `receiveTimedOut`, `isInvalid`, `becameInvalid`,
    ///   `refused`, `unanswered`, `failed`… `CancellationError` when the task was cancelled first: the server may have
    ///   the request nevertheless, and learns of the cancellation.
    public nonisolated(nonsending) func request(
        id: UInt32, _ data: [UInt8]? = nil, timeout: Duration = .seconds(10)
    ) async throws -> [UInt8]? {
        try await request(MachPort.Message(id: id, data: data), timeout: timeout).data
    }

    /// Sends a message of any components as a request, and suspends the task until the reply comes, both within the
    /// timeout. The message's own `replyPort` is not sent.
    /// - Throws: ``PortError``, or `CancellationError`, as `request(id:_:timeout:)`.
    public nonisolated(nonsending) func request(
        _ message: MachPort.Message, timeout: Duration = .seconds(10)
    ) async throws -> MachPort.Message {
        var isSent = false
        return try await request(message, before: .now + timeout, &isSent)
    }
}
