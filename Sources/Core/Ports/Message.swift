extension MachPort {
    /// An id, components, and the port for the answer. In a received message, ``components`` copies the bytes;
    /// ``withBytes(ofComponent:_:)`` does not. The corresponding class is NSPortMessage.
    public struct Message: Sendable, CustomStringConvertible {
        /// A part of a message.
        public enum Component: Sendable, Hashable {
            /// Any number of bytes, also none.
            case bytes([UInt8])
            /// A right to send to a port of any process.
            case port(SendRight)
            /// The right to receive from a port, which moves the port to the process that claims it.
            case receiveRight(ReceiveRight)
            /// A descriptor, which the send takes out of its object.
            case descriptor(MessageDescriptor)
        }

        /// The sender's number for the subject of the message. NSPortMessage calls the id `msgid`.
        public var id: UInt32

        /// Whether large components of bytes behind the first may travel as frozen memory, because their reader takes
        /// both.
        package var mayUseMemory = false

        /// The port for the answer. NSPortMessage calls it `receivePort` in the sender, `sendPort` in the receiver.
        public var replyPort: SendRight? {
            get {
                switch content {
                case .built(_, let replyPort): replyPort
                case .received(let message): message.replyChannel.map(SendRight.init)
                }
            }
            set { content = .built(components, newValue) }
        }

        /// The parts, in order.
        public var components: [Component] {
            get {
                switch content {
                case .built(let components, _): components
                case .received(let message): message.components.map(Component.init)
                }
            }
            set { content = .built(newValue, replyPort) }
        }

        private enum Content {
            case built([Component], SendRight?)
            case received(ReceivedMessage)
        }

        private var content: Content

        var received: ReceivedMessage? { if case .received(let message) = content { message } else { nil } }

        /// Makes a message of these parts, with a port for the answer.
        public init(id: UInt32 = 0, _ components: [Component] = [], replyPort: SendRight? = nil) {
            self.id = id
            content = .built(components, replyPort)
        }

        /// Makes a message of one component, such as Foundation's `Data`.
        public init(id: UInt32 = 0, bytes: some Sequence<UInt8>, replyPort: SendRight? = nil) {
            self.init(id: id, [.bytes(Array(bytes))], replyPort: replyPort)
        }

        /// Makes a message of one component, with a copy of the bytes.
        public init(id: UInt32 = 0, bytes: RawSpan, replyPort: SendRight? = nil) {
            self.init(id: id, [.bytes(bytes.withUnsafeBytes { Array($0) })], replyPort: replyPort)
        }

        init(_ message: consuming ReceivedMessage) {
            id = message.header.id
            content = .received(message)
        }

        /// The message's id, sender, and the size of each component.
        public var description: String {
            let origin = sender.map { " of process \($0.pid)" } ?? ""
            let reply = replyPort.map { ", reply to \($0)" } ?? ""
            let parts = components.map { component in
                switch component {
                case .bytes(let bytes): "\(bytes.count) bytes"
                case .port(let right): right.description
                case .receiveRight(let right): right.description
                case .descriptor(let descriptor): descriptor.description
                }
            }
            return "message \(id)\(origin): \(parts.isEmpty ? "empty" : parts.joined(separator: ", "))\(reply)"
        }

        /// The process that sent the message, by the kernel; nil when it was not received, or the kernel does not say.
        public var sender: SenderCredentials? {
            if case .received(let message) = content { message.sender } else { nil }
        }

        /// Lets `body` read the bytes of a component in place; nil for a port, or past the last component.
        @inlinable
        public func withBytes<R, E: Error>(
            ofComponent index: Int = 0, _ body: (RawSpan) throws(E) -> R
        ) throws(E) -> R? {
            // Only this part is generic, because a generic function that callers cannot inline costs as much as a small
            // message does.
            var result: Result<R, E>?
            readBytes(ofComponent: index) { bytes in
                do throws(E) { result = .success(try body(bytes)) } catch { result = .failure(error) }
            }
            return try result?.get()
        }

        /// The number of components.
        package var componentCount: Int {
            switch content {
            case .built(let components, _): components.count
            case .received(let message): message.componentCount
            }
        }

        /// The port in a component; nil for bytes, or past the last component. Copies nothing of the other components.
        public func port(ofComponent index: Int) -> SendRight? {
            if case .port(let right)? = component(index) { right } else { nil }
        }

        /// The right to receive in a component; nil for other components, or past the last component.
        public func receiveRight(ofComponent index: Int) -> ReceiveRight? {
            if case .receiveRight(let right)? = component(index) { right } else { nil }
        }

        /// The descriptor in a component; nil for bytes and ports, or past the last component. Each call returns the same
        /// object.
        public func descriptor(ofComponent index: Int) -> MessageDescriptor? {
            if case .descriptor(let descriptor)? = component(index) { descriptor } else { nil }
        }

        /// A component of another kind than bytes; nil behind the last component.
        private func component(_ index: Int) -> Component? {
            switch content {
            case .built(let components, _): components.indices.contains(index) ? components[index] : nil
            case .received(let message): message.component(index).map(Component.init)
            }
        }

        /// The frozen memory in a component, which the receiver's limit of a message counts; nil for bytes and ports, or
        /// past the last component.
        /// - Throws: ``PortError``: as ``SharedMemory/init(_:)``, and `messageTooLarge`.
        package func memory(ofComponent index: Int) throws(PortError) -> SharedMemory? {
            if case .received(.frame(let frame)) = content {
                return try frame.memory(ofComponent: index).map { SharedMemory($0) }
            }
            guard let descriptor = descriptor(ofComponent: index) else { return nil }
            if let memory = descriptor.lentMemory { return memory }
            return try SharedMemory(descriptor)
        }

        @usableFromInline
        func readBytes(ofComponent index: Int, _ body: (RawSpan) -> Void) {
            switch content {
            case .built(let components, _):
                guard components.indices.contains(index), case .bytes(let bytes) = components[index] else { return }
                body(bytes.span.bytes)
            case .received(let message): message.readBytes(ofComponent: index) { body($0.bytes) }
            }
        }
    }
}

extension MachPort.Message.Component {
    fileprivate init(_ component: LocalMessage.Component) {
        self =
            switch component {
            case .bytes(let bytes): .bytes(bytes)
            case .port(let right): .port(MachPort.SendRight(right))
            case .offer(let right): .receiveRight(MachPort.ReceiveRight(offer: MachPort.SendRight(right)))
            case .descriptor(let descriptor): .descriptor(descriptor)
            }
    }
}
