import RunLoops

/// The asking side of a message port, for any thread. The corresponding CF function is `CFMessagePortCreateRemote`.
///
///     let echo = try RemoteMessagePort(name: "com.example.echo")
///     let answer = try echo.request(id: 1, Array("hello".utf8))
public struct RemoteMessagePort: Sendable, CustomStringConvertible {
    private static let privateMode: ThreadRunLoop.Mode = "swift-ports replies"

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

    /// - Parameter isSent: Set when the message is sent, so that the server may handle it.
    nonisolated(nonsending) func request(
        _ message: MachPort.Message, before deadline: MonotonicInstant, _ isSent: inout Bool
    ) async throws -> MachPort.Message {
        try Task.checkCancellation()
        let channel = sendRight.channel
        var request = try OpenRequest(to: channel, isForTasks: true)
        try await channel.send(request.outgoing(message), before: deadline)
        request.noteSent()
        isSent = true
        return try request.reply(
            await request.pending.outcome.value(before: deadline, on: request.housekeeping))
    }

    /// - Parameter isSent: Set when the message is sent, so that the server may handle it.
    func request(
        _ message: MachPort.Message, before sendDeadline: MonotonicInstant, _ replyMode: ThreadRunLoop.Mode?,
        _ isSent: inout Bool, _ replyDeadline: () -> MonotonicInstant
    ) throws(PortError) -> MachPort.Message {
        try Fork.check()
        let (loop, channel) = (ThreadRunLoop.current, sendRight.channel)
        // The private mode keeps the reply port, because adding and removing it would cost two system calls.
        let mode = replyMode ?? Self.privateMode
        if channel.isLocal, channel.localPort?.isServedOnlyHere(outside: mode) == true {
            throw .servedOnlyHere(port: identity)
        }
        var request = try OpenRequest(to: channel)
        let (port, pending) = (request.replyPort, request.pending)
        let source = ThreadRunLoop.Source0 {}
        pending.outcome.whenSet { _ in
            source.signal()
            if !loop.isCurrent { loop.wakeUp() }
        }
        // Before the request is sent, because no descriptor may be left to wait with. A nested request leaves the port to
        // the outer request.
        let isScheduled = port.takers.areScheduled(in: loop, forMode: mode)
        if !isScheduled { try port.schedule(in: loop, forMode: mode) }
        defer { if replyMode != nil, !isScheduled { port.takers.remove(from: loop, forMode: mode) } }
        defer { source.invalidate() }
        try runLoop { () throws(RunLoopError) in
            try loop.add(source, forMode: mode)
            try loop.prepare(mode)
        }
        var outgoing = try request.outgoing(message)
        try channel.send(&outgoing, before: sendDeadline)
        request.noteSent()
        isSent = true

        let deadline = replyDeadline()
        while pending.outcome.value == nil, !deadline.hasPassed {
            let seconds = MonotonicInstant.now.duration(to: deadline) / .seconds(1)
            let result = try runLoop { () throws(RunLoopError) in
                try loop.runInMode(mode, seconds: seconds, returnAfterSourceHandled: true)
            }
            // The mode contains this call's source, so the loop itself was stopped.
            if result == .finished, pending.outcome.value == nil {
                throw .unavailable(reason: "the loop of the asking thread was stopped for good")
            }
        }
        return try request.reply(pending.outcome.value)
    }
}
