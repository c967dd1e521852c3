import Glibc
import Ports

/// Bytes inside a typed message that are not copied into the encoded value: a message carries them as a component of
/// their own. Received ones stay in the message, which lives as long as they do.
///
/// To another process, many megabytes go as frozen memory where they can, and as a copy otherwise. Their receiver maps the
/// memory, and may send it on without a copy.
public struct MessageBytes: Sendable {
    private enum Content: Sendable {
        case array([UInt8])
        case received(MachPort.Message, component: Int)
        case memory(SharedMemory)
    }

    private let content: Content

    /// The number of bytes.
    public let count: Int

    /// Takes these bytes.
    public init(_ bytes: some Sequence<UInt8>) {
        let array = Array(bytes)
        content = .array(array)
        count = array.count
    }

    init?(component: Int, of message: MachPort.Message) {
        guard let count = message.withBytes(ofComponent: component, { $0.byteCount }) else { return nil }
        content = .received(message, component: component)
        self.count = count
    }

    init(_ memory: SharedMemory) {
        content = .memory(memory)
        count = memory.byteCount
    }

    /// Lets `body` read the bytes in place.
    public func withBytes<R, E: Error>(_ body: (RawSpan) throws(E) -> R) throws(E) -> R {
        switch content {
        case .array(let bytes): return try body(bytes.span.bytes)
        case .received(let message, let component):
            if let result = try message.withBytes(ofComponent: component, body) { return result }
            // The initializer has seen that component.
            preconditionFailure("a component of a received message is lost")
        case .memory(let memory): return try memory.withBytes(body)
        }
    }

    /// The bytes. Copies them if they were received.
    public var array: [UInt8] {
        switch content {
        case .array(let bytes): bytes
        case .received, .memory: withBytes { bytes in bytes.withUnsafeBytes { Array($0) } }
        }
    }
}

extension MessageBytes: Hashable {
    /// Whether both hold the same bytes.
    public static func == (left: Self, right: Self) -> Bool {
        let count = left.count
        return count == right.count
            && left.withBytes { left in
                right.withBytes { right in
                    left.withUnsafeBytes { left in
                        right.withUnsafeBytes { right in
                            guard let left = left.baseAddress, let right = right.baseAddress else { return true }
                            return memcmp(left, right, count) == 0
                        }
                    }
                }
            }
    }

    /// Hashes the bytes.
    public func hash(into hasher: inout Hasher) {
        withBytes { bytes in bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }
    }
}

extension MessageBytes: Codable {
    /// Adds the bytes to the message's attachments, and encodes their number.
    /// - Throws: `EncodingError`, when no ``MessageCoder`` has made the encoder.
    public func encode(to encoder: any Encoder) throws {
        if case .memory(let memory) = content, Attachments(in: encoder.userInfo)?.hasRoomForDescriptor == true {
            try encoder.encode(self, as: .descriptor(MessageDescriptor(lending: memory)), called: "MessageBytes")
        } else {
            try encoder.encode(self, as: .bytes(array), called: "MessageBytes")
        }
    }

    /// Decodes the number of the bytes among the message's attachments. Bytes that have come as memory are mapped.
    /// - Throws: `DecodingError`, also when no ``MessageCoder`` has made the decoder. Its underlying error is a `PortError`
    ///   when memory has not arrived, somebody can still change it, or it is more than a message to the port may have.
    public init(from decoder: any Decoder) throws {
        self = try decoder.attachment(called: "MessageBytes") { attachments, number throws(PortError) in
            try attachments.bytes(number)
        }
    }
}
