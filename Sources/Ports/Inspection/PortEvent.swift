/// Something that happened to a message at a port: it was taken, handled, or answered. See ``PortMonitor``.
public struct PortEvent: Sendable, Hashable {
    /// What happened.
    public enum Kind: String, Sendable {
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

    /// What happened.
    public let kind: Kind
    /// When, in seconds since 1970.
    public let time: Double
    /// Counts the messages that are taken while somebody monitors the port, also those that are left out. A later event
    /// of a message has the message's number.
    public let number: Int
    /// The message's id.
    public let id: UInt32
    /// The name of the type of a typed request, when the port's server knows it.
    public let name: String?
    /// The sizes of the components in bytes, 0 for a port; of a message with many, the first sixteen.
    public let sizes: [Int]
    /// The bytes of all components; of a message with more than sixteen, about so many.
    public let size: Int
    /// The ports among the first sixteen components.
    public let ports: Int
    /// The process id of the sender; 0 when the kernel does not say.
    public let sender: Int32
    /// The path of the sender's program; nil when the system does not say.
    public let program: String?
    /// How long the handler, or the reply, took; nil for a message that was just taken.
    public let duration: Duration?

    /// The sender's program without its folders, and its process id.
    public var senderText: String { ProcessIdentity(pid: sender, path: program).description }

    /// Which messages a monitor wants. Each condition that is nil holds for all.
    public struct Filter: Sendable, Hashable {
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

        /// The most bytes of the program: the arguments of a question have little room.
        static let mostProgram = 400

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

extension PortEvent: Fields {
    private static let kinds: [Kind] = [.message, .request, .handled, .reply, .unanswered]

    init(from reader: inout FieldReader) {
        let index = reader.number()
        let kind = Self.kinds.indices.contains(index) ? Self.kinds[index] : .message
        time = reader.time()
        number = reader.count()
        id = UInt32(truncatingIfNeeded: reader.number())
        size = reader.count()
        ports = reader.count()
        sender = Int32(truncatingIfNeeded: reader.number())
        program = reader.text()
        duration = reader.duration()
        sizes = reader.numbers().map { min(max(0, $0), FieldReader.mostCount) }
        name = reader.text()
        let isFailure = reader.flag()
        self.kind = reader.flag() ? .cancelled : isFailure ? .failure : kind
    }

    func write(to writer: inout FieldWriter) {
        // For older readers, a failure is a reply, and a request that was given up has none.
        let known: Kind = kind == .failure ? .reply : kind == .cancelled ? .unanswered : kind
        writer.write(Self.kinds.firstIndex(of: known) ?? 0)
        writer.write(time.bitPattern)
        writer.write(number)
        writer.write(id)
        writer.write(size)
        writer.write(ports)
        writer.write(sender)
        writer.write(program)
        writer.write(duration)
        writer.write(sizes)
        writer.write(name)
        writer.write(kind == .failure)
        writer.write(kind == .cancelled)
    }
}

extension PortEvent.Filter: Fields {
    init(from reader: inout FieldReader) {
        id = reader.numbers().first.map { UInt32(truncatingIfNeeded: $0) }
        sender = reader.numbers().first.map { Int32(truncatingIfNeeded: $0) }
        program = reader.text()
        minimumSize = reader.count()
    }

    func write(to writer: inout FieldWriter) {
        writer.write(id.map { [Int($0)] } ?? [])
        writer.write(sender.map { [Int($0)] } ?? [])
        writer.write(program)
        writer.write(minimumSize)
    }
}

/// What goes to a monitor at once.
struct PortEvents: Fields {
    /// The messages that passed unseen since the last time.
    var lost = 0
    var events: [PortEvent] = []

    var isEmpty: Bool { events.isEmpty && lost == 0 }

    init() {}

    init(from reader: inout FieldReader) {
        lost = reader.count()
        events = reader.list()
    }

    func write(to writer: inout FieldWriter) {
        writer.write(lost)
        writer.write(events)
    }
}
