import Dispatch
import RunLoopLocks
import RunLoops

/// A port receives messages from any thread of any process of the same user. Loops and queues handle the messages.
/// The corresponding class is NSMachPort. No Mach kernel is involved: a port is a ZeroMQ socket.
///
///     let port = try MachPort { message in print("got", message.id) }
///     try port.schedule(in: .current)
///     try port.sendRight.send(MachPort.Message(id: 100))
///
/// The port itself is the right to receive. ``sendRight`` is the right to send, which can be copied and sent in
/// messages. A loop keeps its ports. A port that nobody keeps becomes invalid. Any thread may call all methods.
public final class MachPort: Sendable, CustomStringConvertible {
    /// Called with each message, on the thread of a loop that the port is scheduled in, or on its queue.
    public typealias Handler = @Sendable (Message) -> Void

    let receiver: Receiver
    let runtime: PortRuntime
    let sharedDelegate = Lock(SharedDelegate())

    /// Makes a port. Each limit is 1 or more, and those of messages go up to 2³¹ − 2 and 2³¹ − 1 bytes.
    /// - Parameters:
    ///   - queueLimit: The high-water mark: the messages of one sender (a process, all its threads) that wait at the
    ///     port before the sender waits. By ZeroMQ, as many again may wait in another process that sends.
    ///     (libzmq keeps a message of less than 8 KiB that came alone from another process in a buffer of up to 19 KiB.)
    ///   - byteLimit: The bytes of one sender's messages in all these places; nil for any number, which is faster.
    ///   - messageLimit: The largest message that the port takes, in bytes; never more than the `byteLimit`.
    ///   - nameServer: Its runtime owns the port. Its directory holds the port's socket for other processes.
    ///   - handler: Called on the port's loops and its queue. Without one, messages wait for `receive(before:)`.
    /// - Throws: ``PortError`` when a limit is out of its range, no descriptor or no thread is left, or the process is
    ///   a fork.
    public convenience init(
        queueLimit: Int = 1000, byteLimit: Int? = nil, messageLimit: Int = 64 << 20,
        nameServer: PortNameServer = .shared, handler: Handler? = nil
    ) throws(PortError) {
        try self.init(
            .init(queue: queueLimit, bytes: byteLimit, message: messageLimit), nameServer,
            handler.map(Self.messageHandler))
    }

    /// - Parameter publicID: The identity of a port that comes from another process; nil for another port.
    init(
        _ limits: PortLimits, _ nameServer: PortNameServer, _ handler: ReceivedMessage.Handler?,
        requests: RequestLedger? = nil, of publicID: PortID? = nil
    ) throws(PortError) {
        try Fork.check()
        runtime = nameServer.runtime
        receiver = try Receiver(
            limits, directoryPath: nameServer.path, runtime.receiving, requests, of: publicID,
            handlers: .init(message: handler))
    }

    deinit { receiver.invalidate() }

    /// The unique identity of the port, which stays when the port moves to another process.
    public var id: PortID { receiver.publicID }

    /// The port as people know it. See ``PortIdentity``.
    public var identity: PortIdentity { receiver.identity }

    /// The messages of one sender that wait at the port before the sender waits.
    public var queueLimit: Int { receiver.limits.queue }

    /// The bytes of one sender's messages that wait before the sender waits; nil for any number.
    public var byteLimit: Int? { receiver.limits.bytes }

    /// The largest message that the port takes, in bytes, components and a few dozen bytes of frame together.
    public var messageLimit: Int { receiver.limits.message }

    /// The right to send to the port.
    public var sendRight: SendRight { SendRight(receiver.channel) }

    /// The name, else the number, and the owner: see ``PortIdentity/description``.
    public var description: String { identity.description }

    static func messageHandler(_ handler: @escaping Handler) -> ReceivedMessage.Handler {
        { (message: consuming ReceivedMessage) in
            // Requests and replies belong to message ports.
            if message.header.kind == .message { handler(Message(message)) } else { message.refuse() }
        }
    }

    /// Replaces the handler or the delegate, from the next message on. Without a handler, messages wait.
    /// The corresponding method is NSPort's `setDelegate:`.
    public func setHandler(_ handler: Handler?) {
        guard !Fork.isChild else { return }
        sharedDelegate.withLock { $0.delegate = nil }
        receiver.setHandlers(.init(message: handler.map(Self.messageHandler)))
    }

    /// Adds the port to a mode of a loop, which then handles the port's messages. Several loops may have the port. Each
    /// message is handled once.
    /// The corresponding method is NSPort's `scheduleInRunLoop:forMode:`.
    /// - Throws: ``PortError`` when the port is invalid, no descriptor is left, or the loop's thread has ended.
    public func schedule(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) throws(PortError) {
        try receiver.schedule(in: loop, forMode: mode, keeping: self)
    }

    /// Lets the housekeeping thread, which does not keep the port, handle its messages.
    func handleOnHousekeeping(_ handler: @escaping Handler) throws(PortError) {
        setHandler(handler)
        try receiver.schedule(in: runtime.housekeeping.loop(), forMode: .default)
    }

    /// Removes the port from a loop's mode. The corresponding method is NSPort's `removeFromRunLoop:forMode:`.
    public func remove(from loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) {
        receiver.takers.remove(from: loop, forMode: mode)
    }

    /// Whether a loop handles the port's messages in a mode.
    public func isScheduled(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) -> Bool {
        receiver.takers.areScheduled(in: loop, forMode: mode)
    }

    /// Sets the dispatch queue that handles the port's messages, one at a time. It takes the place of the former queue; nil
    /// removes the queue, which finishes the message in hand. Loops that the port is scheduled in take messages, too. The
    /// queue keeps the port until the port is invalid or leaves the queue.
    /// - Throws: ``PortError`` when the port is invalid.
    public func setQueue(_ queue: DispatchQueue?) throws(PortError) { try receiver.setQueue(queue, keeping: self) }

    /// Waits for the next message and takes it. Loops and other threads may take messages at the same time.
    /// - Parameter deadline: The end of the wait. A deadline in the past does not wait.
    /// - Throws: ``PortError``: `receiveTimedOut`, `isInvalid`, `becameInvalid`.
    @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
    public func receive(before deadline: ContinuousClock.Instant? = nil) throws(PortError) -> Message {
        let message = try receiver.receive(before: MonotonicInstant(deadline))
        receiver.isReceiverAway.store(true, ordering: .relaxed)
        return Message(message)
    }

    /// The malformed frames that were dropped.
    public var malformedCount: Int { receiver.intake.totals.malformed }

    /// Whether the port can receive. The corresponding property is NSPort's `valid`.
    public var isValid: Bool { receiver.isValid }

    /// Makes the port invalid, for good. Senders are told, queued requests are refused, and the port's names are free.
    /// The corresponding method is NSPort's `invalidate`.
    ///
    /// The call waits for a message that another thread is handling, and then runs the invalidation handlers. No
    /// message is handled after them. Inside a handler of any port, and in ``SendRight/onInvalidation(_:)``, the call
    /// does not wait: the thread that handles the message then runs the invalidation handlers.
    public func invalidate() { receiver.invalidate() }

    /// Calls a handler when the port becomes invalid, after the message in hand, or at once when the port is invalid
    /// already. The corresponding notification is `NSPortDidBecomeInvalidNotification`.
    public func onInvalidation(_ handler: @escaping @Sendable () -> Void) { receiver.onInvalidation(handler) }
}
