import RunLoops

extension MachPort {
    /// The right to send to a port: a value to copy, to send in messages, and to use on any number of threads at once.
    public struct SendRight: Sendable, Hashable, CustomStringConvertible {
        /// The channel that the right was made with. The port may have another since, to which this one leads. Messages use
        /// this one, because the other would be retained and released.
        let first: SendChannel
        /// The channel to the port's present home.
        var channel: SendChannel { first.latest }

        init(_ channel: SendChannel) { first = channel }

        /// A way for messages to a port.
        public enum Carrier: Sendable, Hashable {
            /// Inside this process.
            case ownProcess
            /// A ring in memory that both processes map. A sent message is with the receiver.
            case sharedMemory
            /// A ZeroMQ socket. A sent message is queued.
            case zeroMQ
        }

        /// The identity of the port.
        public var id: PortID { first.publicID }

        /// The port as people know it. See ``PortIdentity``.
        public var identity: PortIdentity { channel.identity }

        /// Whether two rights name the same port.
        public static func == (left: SendRight, right: SendRight) -> Bool { left.id == right.id }

        /// Hashes the identity of the port.
        public func hash(into hasher: inout Hasher) { hasher.combine(id) }

        /// The name, else the number, and the owner: see ``PortIdentity/description``.
        public var description: String { identity.description }

        /// How messages travel from this process to the port; nil before the first message, and while nothing has
        /// been sent for a long time. Any thread may ask.
        public var carrier: Carrier? {
            channel.isLocal ? .ownProcess : channel.hasRing ? .sharedMemory : channel.isOpen ? .zeroMQ : nil
        }

        /// False once the port is known to be invalid.
        public var isValid: Bool { channel.isValid }

        /// The largest message that the port takes, in bytes.
        public var messageLimit: Int { channel.right.limit }

        /// Calls a handler when the port becomes invalid, or at once when the port is invalid already.
        /// The right connects to the port's process, whose end is noticed, too. The handler is called on the thread
        /// that invalidates a port of this process, otherwise on a thread of the library, which serves all peers: it
        /// must neither block nor end that. It is kept as long as somebody keeps the right.
        public func onInvalidation(_ handler: @escaping @Sendable () -> Void) { first.onInvalidation(handler) }

        /// Sends a message. The call blocks while the port's queue is full (back-pressure), and returns when the
        /// message is queued at the port or on the way there. After an error the message was not sent. A deadline in the
        /// past does not wait for room. Connecting to another process, at the first use or after a long time without
        /// use, may take up to a second more. Any thread may call this method. The corresponding method is
        /// NSPortMessage's `sendBeforeDate:`.
        /// - Throws: ``PortError``: `sendTimedOut`, `isInvalid`, `becameInvalid`, `messageTooLarge`, `cannotConnect`…
        @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
        public func send(_ message: Message, before deadline: ContinuousClock.Instant?) throws(PortError) {
            try send(message, until: MonotonicInstant(deadline))
        }

        // The forms without a deadline are functions of their own, because an optional instant costs as much as half a
        // message, also where it is nil.

        /// Sends a message. The call blocks while the port's queue is full, and returns when the message is queued at the
        /// port or on the way there. After an error the message was not sent. Any thread may call this method.
        /// - Throws: ``PortError``: `isInvalid`, `becameInvalid`, `messageTooLarge`, `cannotConnect`…
        @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
        public func send(_ message: Message) throws(PortError) { try send(message, until: .distantFuture) }

        @inline(__always)
        package func send(_ message: Message, until deadline: MonotonicInstant) throws(PortError) {
            try Fork.check()
            // Not `channel`, which would retain it. If the port has moved, the first channel sends by the latest.
            var message = try MessageEncoding.outgoing(message, to: first)
            try first.send(&message, before: deadline)
        }

        /// Sends a message if there is a connection with room. For threads that must not wait: a send with a deadline in
        /// the past waits for a connection, of which the library's own thread would never hear.
        /// - Returns: False when the message was not sent, because it would have to wait.
        /// - Throws: ``PortError``: `isInvalid`, `messageTooLarge`…
        package func sendAtOnce(_ message: Message) throws(PortError) -> Bool {
            let channel = channel
            var message = try MessageEncoding.outgoing(message, to: channel)
            return try channel.sendAtOnce(&message, before: .distantFuture)
        }

        /// Sends the message now, or later when there is room and a connection. Returns at once.
        /// - Parameters:
        ///   - message: The message.
        ///   - time: The time in which this process runs, and the message waits; nil for ever.
        ///   - ended: Called once if this call throws nothing, with the error if the message was not sent.
        func post(
            _ message: Message, within time: Duration?, ended: @escaping @Sendable ((any Error)?) -> Void
        ) throws(PortError) {
            // Read once, because the message gets the form for this channel.
            let channel = channel
            try channel.post(MessageEncoding.outgoing(message, to: channel), within: time, ended: ended)
        }

        /// Sends a message. The task is suspended while the port's queue is full, and goes on when the message is queued at
        /// the port or on the way there. Waiting senders get room in the order of their calls. After an error the message
        /// was not sent.
        /// - Throws: ``PortError``: `sendTimedOut`, `isInvalid`, `becameInvalid`, `messageTooLarge`, `cannotConnect`…; and
        ///   `CancellationError` when the task was cancelled.
        public nonisolated(nonsending) func send(
            _ message: Message, before deadline: ContinuousClock.Instant? = nil
        ) async throws {
            try Fork.check()
            try Task.checkCancellation()
            let channel = channel
            try await channel.send(MessageEncoding.outgoing(message, to: channel), before: MonotonicInstant(deadline))
        }

        /// Sends a message of one component of bytes, such as `numbers.span.bytes`, without an array. The call blocks while
        /// the port's queue is full. After an error the message was not sent.
        /// - Throws: ``PortError``: `sendTimedOut`, `isInvalid`, `becameInvalid`, `messageTooLarge`, `cannotConnect`…
        @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
        public func send(
            id: UInt32 = 0, bytes: RawSpan, replyPort: SendRight? = nil, before deadline: ContinuousClock.Instant?
        ) throws(PortError) {
            try send(id: id, bytes: bytes, replyPort: replyPort, until: MonotonicInstant(deadline))
        }

        /// Sends a message of one component of bytes. The call blocks while the port's queue is full. After an error the
        /// message was not sent.
        /// - Throws: ``PortError``: `isInvalid`, `becameInvalid`, `messageTooLarge`, `cannotConnect`…
        @available(*, noasync, message: "it blocks; `try await` it in an async function, not at the top of main.swift")
        public func send(id: UInt32 = 0, bytes: RawSpan, replyPort: SendRight? = nil) throws(PortError) {
            try send(id: id, bytes: bytes, replyPort: replyPort, until: .distantFuture)
        }

        @inline(__always)
        package func send(
            id: UInt32, bytes: RawSpan, replyPort: SendRight?, until deadline: MonotonicInstant
        ) throws(PortError) {
            try Fork.check()
            if first.isLocal {
                return try first.send(id: id, bytes: bytes, replyRight: replyPort?.first, before: deadline)
            }
            if replyPort == nil, first.sendByRing(id: id, bytes: bytes) { return }
            try sendFrame(id, bytes, replyPort, deadline)
        }

        /// Sends a message of one component of bytes. The bytes are copied before the first suspension. The task is suspended
        /// while the port's queue is full. After an error the message was not sent.
        /// - Throws: ``PortError``: `sendTimedOut`, `isInvalid`, `becameInvalid`, `messageTooLarge`, `cannotConnect`…; and
        ///   `CancellationError` when the task was cancelled.
        public nonisolated(nonsending) func send(
            id: UInt32 = 0, bytes: RawSpan, replyPort: SendRight? = nil,
            before deadline: ContinuousClock.Instant? = nil
        ) async throws {
            try Fork.check()
            try Task.checkCancellation()
            let channel = channel
            let message = try MessageEncoding.outgoing(id: id, bytes: bytes, replyPort: replyPort, to: channel)
            try await channel.send(message, before: MonotonicInstant(deadline))
        }

        /// A function of its own, because room for a frame would cost instructions for messages inside the runtime, too.
        @inline(never)
        private func sendFrame(
            _ id: UInt32, _ bytes: RawSpan, _ replyPort: SendRight?, _ deadline: MonotonicInstant
        ) throws(PortError) {
            let channel = first
            var frame = try MessageEncoding.frame(id: id, bytes: bytes, replyPort: replyPort, to: channel)
            if channel.sendNow(&frame) { return }
            var message = OutgoingMessage.frame(OutgoingFrame(frame))
            try channel.send(&message, before: deadline)
        }
    }
}
