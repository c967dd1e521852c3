import Ports
import RunLoopLocks

/// The ports, bytes and descriptors that travel beside an encoded value: attachment 0 is component 1 of the message. The value holds
/// their numbers. Copies share what is appended, from the first attachment on.
public struct Attachments: Sendable {
    /// The largest number of attachments of a message.
    public static let largestCount = 1024

    private final class Table: Sendable {
        let components = Lock<[MachPort.Message.Component]>([])

        func component(_ number: UInt32) -> MachPort.Message.Component? {
            components.withLock { $0.indices.contains(Int(number)) ? $0[Int(number)] : nil }
        }
    }

    /// Made with the first attachment.
    private var table: Table?
    private let message: MachPort.Message?

    /// No attachments, to encode values with.
    public init() { message = nil }

    /// The attachments of a message: its components from the second on. Copies no bytes.
    public init(of message: MachPort.Message) { self.message = message }

    /// The components to send behind the encoded value.
    public var components: [MachPort.Message.Component] {
        message.map { Array($0.components.dropFirst()) } ?? table?.components.withLock { $0 } ?? []
    }

    /// A coder that is made of an encoder and a decoder sets this as their `userInfo`. Ports and ``MessageBytes`` find these
    /// attachments there.
    public var userInfo: [CodingUserInfoKey: any Sendable] {
        mutating get {
            makeTable()
            return Self.key.map { [$0: self] } ?? [:]
        }
    }

    private static let key = CodingUserInfoKey(rawValue: "swift-ports.attachments")

    /// The attachments that a coder has given to the encoder or decoder; nil when another coder made it.
    init?(in userInfo: [CodingUserInfoKey: Any]) {
        guard let attachments = Self.key.flatMap({ userInfo[$0] }) as? Attachments else { return nil }
        self = attachments
    }

    /// From now on, copies share what is appended.
    mutating func makeTable() {
        if table == nil, message == nil { table = Table() }
    }

    /// The number of attachments from a number on, and their size in bytes.
    func size(from number: Int) -> (count: Int, bytes: Int) {
        guard let table else { return (0, 0) }
        return table.components.withLock { components in
            var bytes = 0
            // A right has about 150 bytes.
            for component in components.dropFirst(number) {
                switch component {
                case .bytes(let attached): bytes += attached.count
                case .port, .receiveRight: bytes += 150
                case .descriptor(let descriptor): bytes += descriptor.lentMemory?.byteCount ?? 150
                }
            }
            return (components.count - number, bytes)
        }
    }

    /// Removes the attachments from a number on.
    func removeAll(from number: Int) {
        table?.components.withLock { components in
            if number < components.count { components.removeSubrange(number...) }
        }
    }

    var hasRoomForDescriptor: Bool { table?.components.withLock { Self.hasRoomForDescriptor($0) } ?? true }

    private static func hasRoomForDescriptor(_ components: [MachPort.Message.Component]) -> Bool {
        components.count { if case .descriptor = $0 { true } else { false } } < MessageDescriptor.largestCount
    }

    /// Returns the number of the new attachment; nil when there is no room for it.
    mutating func append(_ component: MachPort.Message.Component) -> UInt32? {
        makeTable()
        return table?.components.withLock { components in
            guard components.count < Self.largestCount else { return nil }
            if case .descriptor = component, !Self.hasRoomForDescriptor(components) { return nil }
            components.append(component)
            return UInt32(components.count - 1)
        }
    }

    /// The port of this number; nil when it is no port of these attachments.
    func port(_ number: UInt32) -> MachPort.SendRight? {
        guard number < Self.largestCount else { return nil }
        if let message { return message.port(ofComponent: Int(number) + 1) }
        guard case .port(let right)? = table?.component(number) else { return nil }
        return right
    }

    /// The descriptor of this number; nil when it is no descriptor of these attachments.
    func descriptor(_ number: UInt32) -> MessageDescriptor? {
        guard number < Self.largestCount else { return nil }
        if let message { return message.descriptor(ofComponent: Int(number) + 1) }
        guard case .descriptor(let descriptor)? = table?.component(number) else { return nil }
        return descriptor
    }

    /// The bytes of this number, which may have come as memory; nil when they are no bytes of these attachments.
    func bytes(_ number: UInt32) throws(PortError) -> MessageBytes? {
        guard number < Self.largestCount else { return nil }
        if let message {
            if let bytes = MessageBytes(component: Int(number) + 1, of: message) { return bytes }
            return try message.memory(ofComponent: Int(number) + 1).map { MessageBytes($0) }
        }
        switch table?.component(number) {
        case .bytes(let bytes)?: return MessageBytes(bytes)
        case .descriptor(let descriptor)?: return descriptor.lentMemory.map { MessageBytes($0) }
        case .port?, .receiveRight?, nil: return nil
        }
    }
}
