import Ports

/// Turns values into bytes, and bytes into values. Ports and ``MessageBytes`` inside a value travel beside its bytes, as
/// ``Attachments``.
public protocol MessageCoder: Sendable {
    /// Appends the encoded value to `bytes`, and the ports and bytes that travel beside it to `attachments`. Values may
    /// follow one another in the same bytes: the caller remembers where each ends. After an error, what was appended is
    /// not to be used.
    /// - Throws: `EncodingError`, and what the value's own `encode(to:)` throws.
    func encode<Value: Encodable>(
        _ value: Value, into bytes: inout [UInt8], attachments: inout Attachments
    ) throws

    /// Decodes the value that is all of `bytes`. Bytes that are left over are an error.
    /// - Throws: `DecodingError`, and what the value's own `init(from:)` throws.
    func decode<Value: Decodable>(
        _ type: Value.Type, from bytes: RawSpan, attachments: Attachments
    ) throws -> Value
}

extension MessageCoder {
    /// Makes a message of a value: component 0 holds the encoded value, and the components behind it are the attachments.
    /// - Throws: What ``encode(_:into:attachments:)`` throws.
    public func message<Value: Encodable>(
        id: UInt32 = 0, _ value: Value, replyPort: MachPort.SendRight? = nil
    ) throws -> MachPort.Message {
        var bytes: [UInt8] = []
        var attachments = Attachments()
        try encode(value, into: &bytes, attachments: &attachments)
        return MachPort.Message(id: id, bytes, attachments, replyPort: replyPort)
    }

    /// Decodes the value in component 0 of a message.
    /// - Throws: What ``decode(_:from:attachments:)`` throws; `DecodingError` for a message that does not begin with bytes.
    public func decode<Value: Decodable>(_ type: Value.Type, from message: MachPort.Message) throws -> Value {
        let value = try message.withBytes { try decode(type, from: $0, attachments: Attachments(of: message)) }
        guard let value else {
            throw DecodingError.dataCorrupted(
                .init(codingPath: [], debugDescription: "the message does not begin with a component of bytes"))
        }
        return value
    }
}

extension MachPort.Message {
    /// Makes a message of encoded values and what travels beside them.
    init(id: UInt32, _ encoded: [UInt8], _ attachments: Attachments, replyPort: MachPort.SendRight? = nil) {
        self.init(id: id, [.bytes(encoded)] + attachments.components, replyPort: replyPort)
        mayUseMemory = true
    }
}
