import RunLoops

/// The asking side of a message port, for any thread. The corresponding CF function is `CFMessagePortCreateRemote`.
///
///     let echo = try RemoteMessagePort(name: "com.example.echo")
///     let answer = try echo.request(id: 1, Array("hello".utf8))
public struct RemoteMessagePort: Sendable {
    private static let privateMode: ThreadRunLoop.Mode = "swift-ports replies"

    /// The right to send to the port.
    public let sendRight: MachPort.SendRight

    /// The name by which the port was found, if any. The corresponding CF function is `CFMessagePortGetName`.
    public let name: String?

    /// Finds a port by its name, as `PortNameServer.port(forName:before:)`.
    @available(*, noasync, message: "it blocks its thread; `try await` the other one")
    public init(
        name: String, nameServer: PortNameServer = .shared,
        before deadline: ContinuousClock.Instant? = .now + .seconds(5)
    ) throws(PortError) {
        sendRight = try nameServer.port(forName: name, before: deadline)
        self.name = name
    }

    /// Finds a port as the form that blocks does, suspending the task. Throws also `CancellationError`.
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

    /// False once the port is known to be invalid. The corresponding CF function is `CFMessagePortIsValid`.
    public var isValid: Bool { sendRight.isValid }

    /// Sends data, as `CFMessagePortSendRequest` with no reply mode. The timeout bounds the wait for room at the port.
    @available(*, noasync, message: "it blocks its thread; `try await` the other one")
    public func send(id: UInt32, _ data: [UInt8]? = nil, timeout: Duration = .seconds(10)) throws(PortError) {
        try sendRight.send(MachPort.Message(id: id, data: data), before: .now + timeout)
    }

    /// Sends a request and waits for the reply, both in the time-out. The calling thread's loop runs meanwhile in the
    /// reply mode, and serves the other items of that mode; nil stands for a mode without any. Returns the reply's data;
    /// nil when the server replied without data.
    /// - Throws: ``PortError``: `sendTimedOut` when nothing was sent, `receiveTimedOut`, `isInvalid`, `becameInvalid`,
    ///   `unanswered`…
    @available(*, noasync, message: "it blocks its thread; `try await` the other one")
    public func request(
        id: UInt32, _ data: [UInt8]? = nil, timeout: Duration = .seconds(10), replyMode: ThreadRunLoop.Mode? = nil
    ) throws(PortError) -> [UInt8]? {
        let deadline = MonotonicInstant.now + timeout
        return try request(id, data, before: deadline, replyMode) { deadline }
    }

    /// Sends a request as the form with one time-out does. The send timeout bounds the wait for room at the port, and the
    /// reply timeout the wait after that. The corresponding CF function is `CFMessagePortSendRequest`.
    @available(*, noasync, message: "it blocks its thread; `try await` the form with one time-out")
    public func request(
        id: UInt32, _ data: [UInt8]? = nil, sendTimeout: Duration, replyTimeout: Duration,
        replyMode: ThreadRunLoop.Mode? = nil
    ) throws(PortError) -> [UInt8]? {
        try request(id, data, before: .now + sendTimeout, replyMode) { .now + replyTimeout }
    }

    private func request(
        _ id: UInt32, _ data: [UInt8]?, before sendDeadline: MonotonicInstant, _ replyMode: ThreadRunLoop.Mode?,
        _ replyDeadline: () -> MonotonicInstant
    ) throws(PortError) -> [UInt8]? {
        try Fork.check()
        let loop = ThreadRunLoop.current
        let channel = sendRight.channel
        guard let runtime = channel.runtime else { throw .isEnding }
        // Its end would leave the request without a reply.
        defer { withExtendedLifetime(runtime) {} }
        let replies = runtime.replies
        let use = try replies.use(for: channel)
        defer { replies.end(use) }
        let port = use.port
        let source = ThreadRunLoop.Source0 {}
        let pending = PendingReply(port: channel.id, replyPort: port.id.number)
        pending.outcome.whenSet { _ in
            source.signal()
            if !loop.isCurrent { loop.wakeUp() }
        }
        let number = replies.pending.add(pending)
        defer { replies.pending.remove(number) }

        var message = try Self.request(id, data, number, from: port, to: channel)
        try channel.send(&message, before: sendDeadline)

        // The private mode keeps the reply port, because adding and removing would cost two system calls.
        let mode = replyMode ?? Self.privateMode
        // A nested request leaves the port to the outer request.
        let isScheduled = port.isScheduled(in: loop, forMode: mode)
        if !isScheduled { try port.schedule(in: loop, forMode: mode) }
        defer { if replyMode != nil, !isScheduled { port.remove(from: loop, forMode: mode) } }
        loop.add(source, forMode: mode)
        defer { source.invalidate() }

        let deadline = replyDeadline()
        while true {
            if let result = pending.outcome.value { return MachPort.Message(try result.get()).data }
            guard !deadline.hasPassed else { throw channel.noAnswer(.receiveTimedOut(port: channel.id)) }
            let seconds = MonotonicInstant.now.duration(to: deadline) / .seconds(1)
            let result = try runLoop { () throws(RunLoopError) in
                try loop.runInMode(mode, seconds: seconds, returnAfterSourceHandled: true)
            }
            // The mode contains this call's source, so the loop itself was stopped.
            if result == .finished, pending.outcome.value == nil {
                throw .unavailable(reason: "the loop of the asking thread was stopped for good")
            }
        }
    }

    /// Sends data as the form that blocks does, suspending the task. Throws also `CancellationError`: nothing was sent.
    public nonisolated(nonsending) func send(
        id: UInt32, _ data: [UInt8]? = nil, timeout: Duration = .seconds(10)
    ) async throws {
        try await sendRight.send(MachPort.Message(id: id, data: data), before: .now + timeout)
    }

    /// Sends a request as the form that blocks does, suspending the task. Throws also `CancellationError` when the task
    /// was cancelled first. The server may have the request all the same; a late reply is dropped.
    public nonisolated(nonsending) func request(
        id: UInt32, _ data: [UInt8]? = nil, timeout: Duration = .seconds(10)
    ) async throws -> [UInt8]? {
        let deadline = MonotonicInstant.now + timeout
        try Fork.check()
        try Task.checkCancellation()
        let channel = sendRight.channel
        guard let runtime = channel.runtime else { throw PortError.isEnding }
        defer { withExtendedLifetime(runtime) {} }
        let replies = runtime.replies
        let use = try replies.use(for: channel, isForTasks: true)
        defer { replies.end(use) }
        let pending = PendingReply(port: channel.id, replyPort: use.port.id.number)
        let number = replies.pending.add(pending)
        defer { replies.pending.remove(number) }

        try await channel.send(Self.request(id, data, number, from: use.port, to: channel), before: deadline)
        let outcome = try await pending.outcome.value(before: deadline, on: runtime.housekeeping)
        guard let outcome else { throw channel.noAnswer(.receiveTimedOut(port: channel.id)) }
        return MachPort.Message(try outcome.get()).data
    }

    /// As that of ``sendRight``. The corresponding CF function is `CFMessagePortSetInvalidationCallBack`.
    public func onInvalidation(_ handler: @escaping @Sendable () -> Void) { sendRight.onInvalidation(handler) }

    private static func request(
        _ id: UInt32, _ data: [UInt8]?, _ number: UInt64, from port: Receiver, to channel: SendChannel
    ) throws(PortError) -> OutgoingMessage {
        let message = MachPort.Message(id: id, data: data, replyPort: MachPort.SendRight(port.channel))
        return try MessageEncoding.outgoing(message, kind: .request, request: number, to: channel)
    }
}
