/// Something that happened to a message at a port: it was taken, handled, or answered. `PortMonitor`, of the module
/// PortsInspection, shows a port's events.
public struct PortEvent: Sendable, Hashable, Codable {
    /// A kind of event.
    public enum Kind: String, Sendable, Codable {
        /// A loop, a queue, a task or a thread has taken a message.
        case message
        /// A message whose sender waits for a reply was taken.
        case request
        /// The port's handler has returned from a message.
        case handled
        /// The reply to a request was sent.
        case reply
        /// A failure was sent in place of the reply.
        case failure
        /// The asker has given up. The handler may go on.
        case cancelled
        /// The request gets no reply: its right was released, perhaps as the asker had given up.
        case unanswered
    }

    /// The kind of the event.
    public let kind: Kind
    /// The time of the event, in seconds since 1970.
    public let time: Double
    /// The message's number among those that were taken while somebody monitored the port, also those that are left out.
    /// A later event of a message has the message's number.
    public let number: Int
    /// The message's id.
    public let id: UInt32
    /// The name of the type of a typed request, when the port's server knows it.
    public let name: String?
    /// The sizes of the components in bytes, 0 for a port; of a message with many, the first sixteen.
    public let sizes: [Int]
    /// The bytes of all components; about that number for a message with more than sixteen.
    public let size: Int
    /// The ports among the first sixteen components.
    public let ports: Int
    /// The process id of the sender; 0 when the kernel does not say.
    public let sender: Int32
    /// The path of the sender's program; nil when the system does not say.
    public let program: String?
    /// How long the handler, or the reply, took; nil for a message that was just taken.
    public let duration: Duration?

    private enum CodingKeys: String, CodingKey {
        case kind = "event", time, number, id, name = "type", sizes, size, ports, sender = "pid", program
        case duration = "milliseconds"
    }

    /// The sender's program without its folders, and its process id.
    public var senderText: String { ProcessIdentity(pid: sender, path: program).description }

    /// The messages that a monitor wants. A condition that is nil holds for all messages.
    public struct Filter: Sendable, Hashable, Codable {
        /// The message's id.
        public var id: UInt32?
        /// The process id of the sender.
        public var sender: Int32?
        /// The sender's program: its path, or the last part of that.
        public var program: String?
        /// The least bytes of all components together.
        public var minimumSize: Int

        /// Makes a filter; without conditions, it lets all messages pass.
        public init(id: UInt32? = nil, sender: Int32? = nil, program: String? = nil, minimumSize: Int = 0) {
            (self.id, self.sender, self.program, self.minimumSize) = (id, sender, program, minimumSize)
        }

        /// The most bytes of the program, because a question has little room.
        package static let mostProgram = 400

        func wants(_ event: PortEvent) -> Bool {
            wants(id: event.id, size: event.size, sender: event.sender) { _ in event.program }
        }

        /// Asks only for what the filter needs: the cheapest first.
        func wants(
            id: UInt32, size: @autoclosure () -> Int, sender: @autoclosure () -> Int32, program: (Int32) -> String?
        ) -> Bool {
            guard (self.id ?? id) == id, minimumSize <= 0 || size() >= minimumSize else { return false }
            guard self.sender != nil || self.program != nil else { return true }
            let sender = sender()
            guard (self.sender ?? sender) == sender else { return false }
            guard let wanted = self.program else { return true }
            return program(sender).map { $0 == wanted || $0.hasSuffix("/" + wanted) } ?? false
        }
    }
}

/// The events that go to a monitor at once.
package struct PortEvents: Sendable, Codable {
    /// The events that were left out since the last packet.
    package var lost = 0
    package var events: [PortEvent] = []

    var isEmpty: Bool { events.isEmpty && lost == 0 }
}
