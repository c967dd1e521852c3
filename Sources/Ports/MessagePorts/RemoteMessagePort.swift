import RunLoops
import ZeroMQ

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

    /// The name that it was found by; nil when its right came another way. The corresponding CF function is
    /// `CFMessagePortGetName`.
    public let name: String?

    /// Finds a port by its name.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - nameServer: Where it is registered.
    ///   - deadline: How long the owner may take to answer.
    /// - Throws: ``PortError``, as ``PortNameServer/port(forName:before:)``.
    @available(*, noasync, message: "it blocks its thread; `try await` the other one")
    public init(
        name: String, nameServer: PortNameServer = .shared, before deadline: MonotonicInstant = .now + .seconds(5)
    ) throws(PortError) {
        sendRight = try nameServer.port(forName: name, before: deadline)
        self.name = name
    }

    /// Finds a port by its name, suspending the task until its owner has answered. No thread waits.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - nameServer: Where it is registered.
    ///   - deadline: How long the owner may take to answer.
    /// - Throws: ``PortError``, as the form that blocks; `CancellationError` when the task is cancelled.
    public nonisolated(nonsending) init(
        name: String, nameServer: PortNameServer = .shared, before deadline: MonotonicInstant = .now + .seconds(5)
    ) async throws {
        sendRight = try await nameServer.port(forName: name, before: deadline)
        self.name = name
    }

    /// The port of a right that came another way.
    public init(_ sendRight: MachPort.SendRight) {
        self.sendRight = sendRight
        name = nil
    }

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
        try Fork.check()
        let loop = ThreadRunLoop.current
        let channel = sendRight.channel
        guard let replies = channel.runtime?.replies else { throw .isEnding }
        let port = try replies.port(for: channel)
        let source = ThreadRunLoop.Source0 {}
        let pending = PendingReply(to: channel.id)
        pending.outcome.whenSet { _ in
            source.signal()
            if !loop.isCurrent { loop.wakeUp() }
        }
        let number = replies.pending.add(pending)
        defer { replies.pending.remove(number) }

        var frame = try Self.frame(id, data, number, from: port, to: channel)
        try channel.send(&frame, before: .now + sendTimeout)

        // The private mode keeps the reply port: to add and remove it would cost two system calls.
        let mode = replyMode ?? Self.privateMode
        // A request that is nested in another's wait leaves the port to the outer one.
        let isScheduled = port.isScheduled(in: loop, forMode: mode)
        if !isScheduled { try port.schedule(in: loop, forMode: mode) }
        defer { if replyMode != nil, !isScheduled { port.remove(from: loop, forMode: mode) } }
        loop.add(source, forMode: mode)
        defer { source.invalidate() }

        let deadline = MonotonicInstant.now + replyTimeout
        while true {
            if let result = pending.outcome.value { return Self.data(in: try result.get()) }
            guard !deadline.hasPassed else { throw .receiveTimedOut(port: channel.id) }
            let seconds = MonotonicInstant.now.duration(to: deadline) / .seconds(1)
            let result = try runLoop { () throws(RunLoopError) in
                try loop.runInMode(mode, seconds: seconds, returnAfterSourceHandled: true)
            }
            // The mode has a source of ours, so it is the thread that was told to end.
            if result == .finished, pending.outcome.value == nil {
                throw .unavailable(reason: "the loop of the asking thread was stopped for good")
            }
        }
    }

    /// Sends without wanting a reply, suspending the task while there is no room at the port.
    ///
    /// - Parameters:
    ///   - id: What it is about.
    ///   - data: The data; nil for none.
    ///   - timeout: How long to wait for room at the port.
    /// - Throws: ``PortError``; `CancellationError` when the task was cancelled before it was sent.
    public nonisolated(nonsending) func send(
        id: UInt32, _ data: [UInt8]? = nil, timeout: Duration = .seconds(10)
    ) async throws {
        try await sendRight.send(Self.message(id, data), before: .now + timeout)
    }

    /// Sends a request and suspends the task until the reply comes.
    ///
    /// - Parameters:
    ///   - id: What it is about.
    ///   - data: The data; nil for none.
    ///   - sendTimeout: How long to wait for room at the port.
    ///   - replyTimeout: How long to wait for the reply after that.
    /// - Returns: The reply's data; nil when the server replied without data.
    /// - Throws: ``PortError``, as the one that blocks. `CancellationError` when the task was cancelled first: the server
    ///   may have the request all the same, and a reply that still comes is dropped.
    public nonisolated(nonsending) func request(
        id: UInt32, _ data: [UInt8]? = nil, sendTimeout: Duration = .seconds(10), replyTimeout: Duration = .seconds(10)
    ) async throws -> [UInt8]? {
        try Fork.check()
        try Task.checkCancellation()
        let channel = sendRight.channel
        guard let runtime = channel.runtime else { throw PortError.isEnding }
        let replies = runtime.replies
        let port = try replies.port(for: channel, isForTasks: true)
        let pending = PendingReply(to: channel.id)
        let number = replies.pending.add(pending)
        defer { replies.pending.remove(number) }

        try await channel.send(Self.frame(id, data, number, from: port, to: channel), before: .now + sendTimeout)
        let outcome = try await pending.outcome.value(before: .now + replyTimeout, on: runtime.housekeeping)
        guard let outcome else { throw PortError.receiveTimedOut(port: channel.id) }
        return Self.data(in: try outcome.get())
    }

    /// Calls a handler when the port becomes invalid: at once when it is already. See
    /// ``MachPort/SendRight/onInvalidation(_:)``. The corresponding CF function is
    /// `CFMessagePortSetInvalidationCallBack`.
    public func onInvalidation(_ handler: @escaping @Sendable () -> Void) { sendRight.onInvalidation(handler) }

    private static func frame(
        _ id: UInt32, _ data: [UInt8]?, _ number: UInt64, from port: Receiver, to channel: SendChannel
    ) throws(PortError) -> Frame {
        var message = message(id, data)
        message.replyPort = MachPort.SendRight(port.channel)
        return try MessageEncoding.frame(message, kind: .request, request: number, to: channel)
    }

    private static func message(_ id: UInt32, _ data: [UInt8]?) -> MachPort.Message {
        MachPort.Message(id: id, data.map { [.bytes($0)] } ?? [])
    }

    private static func data(in reply: ReceivedFrame) -> [UInt8]? {
        reply.withBytes(ofComponent: 0) { $0.withUnsafeBytes { Array($0) } }
    }
}
