extension MachPort {
    /// A message from port to port: an id, components, and the port for the answer.
    /// The corresponding class is NSPortMessage.
    ///
    ///     try right.send(MachPort.Message(id: 7, [.bytes(Array("hello".utf8)), .port(mine.sendRight)]))
    ///
    /// A received message keeps its bytes where they arrived. ``components`` copies them; ``withBytes(ofComponent:_:)``
    /// does not.
    public struct Message: Sendable, CustomStringConvertible {
        /// A part of a message.
        public enum Component: Sendable, Hashable {
            /// Any number of bytes, also none.
            case bytes([UInt8])
            /// A right to send to a port of any process.
            case port(SendRight)
        }

        /// The sender's number for the subject of the message. NSPortMessage calls the id `msgid`.
        public var id: UInt32

        /// The port for the answer. NSPortMessage calls this port `receivePort` in the sender and `sendPort` in the
        /// receiver.
        public var replyPort: SendRight? {
            get {
                switch content {
                case .built(_, let replyPort): replyPort
                case .received(let frame): frame.replyChannel.map(SendRight.init)
                }
            }
            set { content = .built(components, newValue) }
        }

        /// The parts, in order.
        public var components: [Component] {
            get {
                switch content {
                case .built(let components, _): components
                case .received(let frame):
                    frame.components.map { component in
                        switch component {
                        case .bytes(let bytes): .bytes(bytes)
                        case .port(let channel): .port(SendRight(channel))
                        }
                    }
                }
            }
            set { content = .built(newValue, replyPort) }
        }

        private enum Content {
            case built([Component], SendRight?)
            case received(ReceivedFrame)
        }

        private var content: Content

        /// Makes a message.
        ///
        /// - Parameters:
        ///   - id: The message's id.
        ///   - components: The parts.
        ///   - replyPort: The port for the answer.
        public init(id: UInt32 = 0, _ components: [Component] = [], replyPort: SendRight? = nil) {
            self.id = id
            content = .built(components, replyPort)
        }

        init(_ frame: ReceivedFrame) {
            id = frame.header.id
            content = .received(frame)
        }

        /// The message's id, sender, and the size of each component.
        public var description: String {
            let origin = sender.map { " of process \($0.pid)" } ?? ""
            let reply = replyPort.map { ", reply to \($0)" } ?? ""
            let parts = componentDescriptions
            return "message \(id)\(origin): \(parts.isEmpty ? "empty" : parts.joined(separator: ", "))\(reply)"
        }

        private var componentDescriptions: [String] {
            switch content {
            case .built(let components, _):
                components.map { component in
                    switch component {
                    case .bytes(let bytes): "\(bytes.count) bytes"
                    case .port(let right): right.description
                    }
                }
            case .received(let frame): frame.componentDescriptions
            }
        }

        /// The process that sent the message, according to the kernel; nil for a message that was not received, or when
        /// the kernel does not say.
        public var sender: Sender? {
            if case .received(let frame) = content { frame.sender } else { nil }
        }

        /// Lets `body` read the bytes of a component in place; nil for a port, or past the last component.
        public func withBytes<R>(ofComponent index: Int = 0, _ body: (RawSpan) throws -> R) rethrows -> R? {
            switch content {
            case .built(let components, _):
                guard components.indices.contains(index), case .bytes(let bytes) = components[index] else { return nil }
                return try body(bytes.span.bytes)
            case .received(let frame):
                return try frame.withBytes(ofComponent: index, body)
            }
        }

        /// The process that sent a message.
        public typealias Sender = MessageSender
    }
}
