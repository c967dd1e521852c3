import RunLoops
import ZeroMQ

extension MachPort {
    /// The right to send to a port, in this process or another's.
    ///
    /// Rights are values: copy them, keep them in sets, send them in messages, use them from any number of threads at
    /// once. Two are equal when they name the same port.
    public struct SendRight: Sendable, Hashable, CustomStringConvertible {
        let channel: SendChannel

        init(_ channel: SendChannel) { self.channel = channel }

        /// The identity of the port.
        public var id: PortID { channel.id }

        /// Whether two rights name the same port.
        public static func == (left: SendRight, right: SendRight) -> Bool { left.id == right.id }

        /// Feeds what names the port.
        public func hash(into hasher: inout Hasher) { hasher.combine(id) }

        /// The port's number and its process.
        public var description: String { channel.description }

        /// Whether the port is not known to be invalid.
        public var isValid: Bool { channel.isValid }

        /// The largest message that the port takes, in bytes.
        public var messageLimit: Int { channel.messageLimit }

        /// Calls a handler when the port becomes invalid: at once when it is already.
        ///
        /// The port was invalidated, or its process is gone. To notice the latter, the right connects to the process,
        /// if it has not done so yet.
        /// - Parameter handler: Called once: on the thread that invalidates a port of this process, else on a thread
        ///   of the library's, which it must not block. It is kept as long as somebody keeps the right.
        public func onInvalidation(_ handler: @escaping @Sendable () -> Void) {
            channel.onInvalidation(handler)
        }

        /// Sends a message. The corresponding method is NSPortMessage's `sendBeforeDate:`.
        ///
        /// Any thread may call it. It returns when the message is queued at the port, or on its way there; while the
        /// port's queue is full it blocks.
        /// - Parameters:
        ///   - message: What to send. After an error it was not sent.
        ///   - deadline: How long to wait for room. A deadline in the past does not wait; only to connect to another
        ///     process, at a right's first use or after one of many has long been unused, may take up to a second more.
        /// - Throws: ``PortError``: `sendTimedOut`, `isInvalid`, `becameInvalid`, `messageTooLarge`, `cannotConnect`…
        public func send(_ message: Message, before deadline: MonotonicInstant = .distantFuture) throws(PortError) {
            try Fork.check()
            var frame = try MessageEncoding.frame(message, to: channel)
            try channel.send(&frame, before: deadline)
        }

        /// Sends a message, suspending the task while the port's queue is full, or while the right's first use connects
        /// to another process.
        ///
        /// Tasks and threads that wait for room get it in the order they came.
        /// - Parameters:
        ///   - message: What to send. After an error it was not sent.
        ///   - deadline: How long to wait for room. A deadline in the past does not wait; only to connect to another
        ///     process, at a right's first use or after one of many has long been unused, may take up to a second more.
        /// - Throws: ``PortError``, as the one that blocks, except `ownQueueFull`: the loop goes on meanwhile.
        ///   `CancellationError` when the task was cancelled before the message was sent.
        public nonisolated(nonsending) func send(
            _ message: Message, before deadline: MonotonicInstant = .distantFuture
        ) async throws {
            try Fork.check()
            try Task.checkCancellation()
            try await channel.send(MessageEncoding.frame(message, to: channel), before: deadline)
        }

        /// Sends a message of one component of bytes, without making an array of them first.
        ///
        ///     try right.send(id: 1, bytes: numbers.span.bytes)
        ///
        /// - Parameters:
        ///   - id: What it is about.
        ///   - bytes: The component.
        ///   - replyPort: Where an answer should go.
        ///   - deadline: How long to wait for room.
        /// - Throws: ``PortError``, as `send(_:before:)`.
        public func send(
            id: UInt32 = 0, bytes: RawSpan, replyPort: SendRight? = nil,
            before deadline: MonotonicInstant = .distantFuture
        ) throws(PortError) {
            try Fork.check()
            var frame = try MessageEncoding.frame(id: id, bytes: bytes, replyPort: replyPort, to: channel)
            try channel.send(&frame, before: deadline)
        }
    }
}
