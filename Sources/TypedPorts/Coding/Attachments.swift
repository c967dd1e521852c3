import Ports
import RunLoopLocks

/// The ports and bytes that travel beside an encoded value: attachment 0 is component 1 of the message. The value holds
/// their numbers. Copies share what is appended.
public struct Attachments: Sendable {
    /// A message has at most so many attachments.
    public static let largestCount = 1024

    private final class Table: Sendable {
        let components = Lock<[MachPort.Message.Component]>([])

        func component(_ number: UInt32) -> MachPort.Message.Component? {
            components.withLock { $0.indices.contains(Int(number)) ? $0[Int(number)] : nil }
        }
    }

    private enum Content: Sendable {
        case none
        case built(Table)
        case received(MachPort.Message)
    }

    private var content = Content.none

    /// No attachments, to encode values with.
    public init() {}

    /// The attachments of a message: its components from the second on. Copies no bytes.
    public init(of message: MachPort.Message) { content = .received(message) }

    /// The components to send behind the encoded value.
    public var components: [MachPort.Message.Component] {
        switch content {
        case .none: []
        case .built(let table): table.components.withLock { $0 }
        case .received(let message): Array(message.components.dropFirst())
        }
    }

    /// What a coder gives to an encoder or a decoder of its own, as `userInfo`, so that ports and ``MessageBytes`` find
    /// these attachments.
    public var userInfo: [CodingUserInfoKey: any Sendable] {
        mutating get {
            _ = table
            return Self.key.map { [$0: self] } ?? [:]
        }
    }

    private static let key = CodingUserInfoKey(rawValue: "swift-ports.attachments")

    /// The attachments that a coder has given to the encoder or decoder; nil when another coder made it.
    init?(in userInfo: [CodingUserInfoKey: Any]) {
        guard let attachments = Self.key.flatMap({ userInfo[$0] }) as? Attachments else { return nil }
        self = attachments
    }

    /// Made with the first attachment; nil for a received message.
    private var table: Table? {
        mutating get {
            switch content {
            case .none:
                let table = Table()
                content = .built(table)
                return table
            case .built(let table): return table
            case .received: return nil
            }
        }
    }

    /// How many attachments there are behind a number, and their bytes.
    func size(from number: Int) -> (count: Int, bytes: Int) {
        guard case .built(let table) = content else { return (0, 0) }
        return table.components.withLock { components in
            var bytes = 0
            // A right has about 150 bytes.
            for component in components.dropFirst(number) {
                if case .bytes(let attached) = component { bytes += attached.count } else { bytes += 150 }
            }
            return (components.count - number, bytes)
        }
    }

    /// Removes the attachments behind a number.
    mutating func removeAll(from number: Int) {
        table?.components.withLock { components in
            if number < components.count { components.removeSubrange(number...) }
        }
    }

    /// Returns the number of the new attachment; nil when there is no room for it.
    mutating func append(_ component: MachPort.Message.Component) -> UInt32? {
        table?.components.withLock { components in
            guard components.count < Self.largestCount else { return nil }
            components.append(component)
            return UInt32(components.count - 1)
        }
    }

    /// The port of this number; nil when it is no port of these attachments.
    func port(_ number: UInt32) -> MachPort.SendRight? {
        guard number < Self.largestCount else { return nil }
        switch content {
        case .none: return nil
        case .built(let table):
            guard case .port(let right)? = table.component(number) else { return nil }
            return right
        case .received(let message): return message.port(ofComponent: Int(number) + 1)
        }
    }

    /// The bytes of this number; nil when they are no bytes of these attachments.
    func bytes(_ number: UInt32) -> MessageBytes? {
        guard number < Self.largestCount else { return nil }
        switch content {
        case .none: return nil
        case .built(let table):
            guard case .bytes(let bytes)? = table.component(number) else { return nil }
            return MessageBytes(bytes)
        case .received(let message): return MessageBytes(component: Int(number) + 1, of: message)
        }
    }
}
