extension MachPort {
    /// What is sent from port to port: a number, components, and the port that an answer goes to.
    /// The corresponding class is NSPortMessage.
    ///
    ///     try right.send(MachPort.Message(id: 7, [.bytes(Array("hello".utf8)), .port(mine.sendRight)]))
    ///
    /// A received message keeps its bytes where they arrived; they are copied only when they are asked for as an array.
    public struct Message: Sendable, CustomStringConvertible {
        /// A part of a message.
        public enum Component: Sendable, Hashable {
            /// Bytes, of any number, zero too.
            case bytes([UInt8])
            /// A right to send to a port, in whichever process that is.
            case port(SendRight)
        }

        /// The sender's number for what the message is about. NSPortMessage calls it `msgid`.
        public var id: UInt32

        /// The port for answers. NSPortMessage calls it `receivePort` in the sender and `sendPort` in the receiver.
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
        ///   - id: What it is about.
        ///   - components: Its parts.
        ///   - replyPort: Where an answer should go.
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

        /// The process that sent the message, in the kernel's words; nil for a message that was not received, or when the
        /// kernel does not say.
        public var sender: Sender? {
            if case .received(let frame) = content { frame.sender } else { nil }
        }

        /// Lets `body` read the bytes of a component where they are; nil for a port, or past the last component.
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
