import Dispatch
import RunLoops

/// A port: messages sent to it, from any thread of any process of the same user, are handled where it is scheduled.
/// The corresponding class is NSMachPort. No Mach kernel is involved: a port is a ZeroMQ socket.
///
///     let port = try MachPort { message in print("got", message.id) }
///     try port.schedule(in: .current)
///     try port.sendRight.send(MachPort.Message(id: 100))
///
/// The port itself is the right to receive. ``sendRight`` is the right to send; it can be copied and sent on. A loop
/// that the port is scheduled in keeps it; when nobody keeps it any more, it becomes invalid.
public final class MachPort: Sendable, CustomStringConvertible {
    /// Called with each message, on the thread of a loop that the port is scheduled in, or on its queue.
    public typealias Handler = @Sendable (Message) -> Void

    let receiver: Receiver
    private let runtime: PortRuntime
    private let delegateBox = Lock(DelegateBox())

    private struct DelegateBox {
        weak var delegate: (any Delegate)?
    }

    /// Makes a port. Each limit is 1 or more.
    ///
    /// - Parameters:
    ///   - queueLimit: How many messages of one sender wait at the port before that sender has to. All threads of a
    ///     process together are one sender. As many again may wait in a sender's process, if it is another than the
    ///     port's, and up to 256 KiB between the two. So a port that nobody reads holds at most the limit, times the
    ///     processes that send to it, times the size of a message. (A message of less than 8 KiB from another process may
    ///     cost 19 KiB while it waits, when it came alone: libzmq keeps it in the buffer that it was read into.)
    ///   - byteLimit: How many bytes of one sender's messages wait in all these places together before that sender has
    ///     to; nil for any number. It makes each message a little slower.
    ///   - messageLimit: The largest message that the port takes, in bytes; never more than the `byteLimit`.
    ///   - nameServer: Where the port's socket lives, should the port become known outside this process. The port belongs
    ///     to the name server's runtime.
    ///   - handler: Called with each message on the loops that the port is scheduled in, and on its queue. Without a
    ///     handler, messages wait for `receive(before:)`.
    /// - Throws: ``PortError`` when a limit is less than 1, there is no descriptor or no thread left, or the process is a
    ///   fork.
    public convenience init(
        queueLimit: Int = 1000, byteLimit: Int? = nil, messageLimit: Int = 64 << 20,
        nameServer: PortNameServer = .shared, handler: Handler? = nil
    ) throws(PortError) {
        try self.init(
            .init(queue: queueLimit, bytes: byteLimit, message: messageLimit), nameServer,
            handler.map(Self.frameHandler))
    }

    init(
        _ limits: PortLimits, _ nameServer: PortNameServer, _ handler: Receiver.FrameHandler?
    ) throws(PortError) {
        try Fork.check()
        runtime = nameServer.runtime
        receiver = try Receiver(
            limits, directoryPath: nameServer.path, runtime.receiving, handlers: .init(frame: handler))
    }

    deinit { receiver.invalidate() }

    /// The identity of the port, which no other port has.
    public var id: PortID { receiver.id }

    /// How many messages of one sender wait at the port before that sender has to.
    public var queueLimit: Int { receiver.limits.queue }

    /// How many bytes of one sender's messages wait at the port before that sender has to; nil for any number.
    public var byteLimit: Int? { receiver.limits.bytes }

    /// The largest message that the port takes, in bytes, components and a few dozen bytes of frame together.
    public var messageLimit: Int { receiver.limits.message }

    /// The right to send to the port.
    public var sendRight: SendRight { SendRight(receiver.channel) }

    /// The port's number and its process.
    public var description: String { id.description }

    // MARK: Handling messages

    private static func frameHandler(_ handler: @escaping Handler) -> Receiver.FrameHandler {
        { frame in
            // Requests and replies belong to message ports.
            if frame.header.kind == .message { handler(Message(frame)) } else { frame.refuse() }
        }
    }

    /// Sets the closure that is called with each message, in place of a delegate too; nil: messages wait. It is called
    /// from the next message on. The corresponding method is NSPort's `setDelegate:`.
    public func setHandler(_ handler: Handler?) {
        guard !Fork.isChild else { return }
        delegateBox.withLock { $0.delegate = nil }
        receiver.setHandlers(.init(frame: handler.map(Self.frameHandler)))
    }

    /// Handles each message, in place of a handler. The port does not keep the delegate; without one, messages wait.
    /// Any thread may set it; it is called from the next message on. The corresponding property is NSPort's `delegate`.
    public var delegate: (any Delegate)? {
        get { delegateBox.withLockUnlessForked { $0.delegate } ?? nil }
        set {
            // A handler stays when there is no delegate to remove.
            guard newValue != nil || delegate != nil else { return }
            guard newValue != nil else { return setHandler(nil) }
            delegateBox.withLock { $0.delegate = newValue }
            receiver.setHandlers(
                .init(ofDelegate: { [weak self] in
                    guard let self, let delegate else { return nil }
                    return Self.frameHandler { message in delegate.handle(message, of: self) }
                }))
        }
    }

    /// Has a loop handle the port's messages in a mode. It may be scheduled in several loops and modes; each message is
    /// handled once. Any thread may call it.
    /// The corresponding method is NSPort's `scheduleInRunLoop:forMode:`.
    ///
    /// - Throws: ``PortError`` when the port is invalid, no descriptor is left, or the loop's thread has ended.
    public func schedule(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) throws(PortError) {
        try receiver.schedule(in: loop, forMode: mode, keeping: self)
    }

    /// Takes the port out of a loop's mode. Any thread may call it.
    /// The corresponding method is NSPort's `removeFromRunLoop:forMode:`.
    public func remove(from loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) {
        receiver.remove(from: loop, forMode: mode)
    }

    /// Whether a loop handles the port's messages in a mode.
    public func isScheduled(in loop: ThreadRunLoop, forMode mode: ThreadRunLoop.Mode = .default) -> Bool {
        receiver.isScheduled(in: loop, forMode: mode)
    }

    /// Has a dispatch queue handle the port's messages, one at a time, in place of the queue before; nil: none does.
    /// Any thread may call it. Loops that the port is scheduled in take their share.
    ///
    /// The queue keeps the port until the port is invalid or has another queue or none. The former queue finishes the
    /// message in hand.
    /// - Throws: ``PortError`` when the port is invalid.
    public func setQueue(_ queue: DispatchQueue?) throws(PortError) { try receiver.setQueue(queue, keeping: self) }

    /// Waits for the next message and takes it. Any thread may call it; loops and other waiting threads take their
    /// share.
    ///
    /// - Parameter deadline: How long to wait. A deadline in the past takes only what is there.
    /// - Throws: ``PortError``: `receiveTimedOut`, `isInvalid`, `becameInvalid`.
    @available(*, noasync, message: "it blocks its thread; `try await` the other one")
    public func receive(before deadline: MonotonicInstant = .distantFuture) throws(PortError) -> Message {
        Message(try receiver.receive(before: deadline))
    }

    /// How many malformed frames were dropped.
    public var malformedCount: Int { receiver.malformedCount }

    // MARK: Validity

    /// Whether the port can receive. The corresponding property is NSPort's `valid`.
    public var isValid: Bool { receiver.isValid }

    /// Makes the port invalid, for good: senders learn it, requests that wait are refused, its names are free.
    /// The corresponding method is NSPort's `invalidate`.
    ///
    /// Any thread may call it, from a handler of the port's too. The invalidation handlers run on the caller, after a
    /// message that another thread is handling at the moment; no message is handled after them. (Called inside some
    /// port's handler while another thread handles a message of this one, it does not wait, lest two threads wait for
    /// each other: then that thread runs the handlers. Nor does it wait in a right's ``SendRight/onInvalidation(_:)``,
    /// which would hold up the library's own thread.)
    public func invalidate() { receiver.invalidate() }

    /// Calls a handler when the port becomes invalid: at once when it is already.
    ///
    /// Handlers are called in the order they were set, after the message in hand. A handler that is set while the port
    /// ends, inside another for instance, is called after those before it.
    /// The corresponding notification is `NSPortDidBecomeInvalidNotification`.
    public func onInvalidation(_ handler: @escaping @Sendable () -> Void) { receiver.onInvalidation(handler) }
}
