import Ports

extension MachPort.SendRight: Codable {
    /// Adds the right to the message's attachments, and encodes its number.
    /// - Throws: `EncodingError`, when no ``MessageCoder`` has made the encoder.
    public func encode(to encoder: any Encoder) throws {
        try encoder.encode(self, as: .port(self), called: "MachPort.SendRight")
    }

    /// Decodes the number of the right among the message's attachments.
    /// - Throws: `DecodingError`, also when no ``MessageCoder`` has made the decoder.
    public init(from decoder: any Decoder) throws {
        self = try decoder.attachment(called: "MachPort.SendRight") { $0.port($1) }
    }
}

extension Encoder {
    func encode(_ value: Any, as component: MachPort.Message.Component, called name: String) throws {
        func error(_ sentence: String) -> EncodingError {
            .invalidValue(value, .init(codingPath: codingPath, debugDescription: sentence))
        }
        guard var attachments = Attachments(in: userInfo) else {
            throw error("a \(name) travels only in a message: encode it with a MessageCoder")
        }
        guard let number = attachments.append(component) else {
            throw error(
                "a message takes at most \(Attachments.largestCount) attachments, and \(MessageDescriptor.largestCount) "
                    + "descriptors: send several messages")
        }
        var container = singleValueContainer()
        try container.encode(number)
    }
}

extension Decoder {
    func attachment<Value>(
        called name: String, _ take: (Attachments, UInt32) throws(PortError) -> Value?
    ) throws -> Value {
        let container = try singleValueContainer()
        guard let attachments = Attachments(in: userInfo) else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: "a \(name) travels only in a message: decode it with a MessageCoder")
        }
        let number = try container.decode(UInt32.self)
        var taken: Value?
        do { taken = try take(attachments, number) } catch {
            throw DecodingError.dataCorrupted(
                .init(codingPath: codingPath, debugDescription: "\(error)", underlyingError: error))
        }
        guard let taken else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "the message has no \(name) as attachment \(number)")
        }
        return taken
    }
}
