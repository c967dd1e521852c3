import Ports

extension MessageDescriptor: Codable {
    /// Adds the descriptor to the message's attachments, and encodes its number there. The send of the message takes the
    /// descriptor out of the object.
    /// - Throws: `EncodingError`, when no ``MessageCoder`` has made the encoder.
    public func encode(to encoder: any Encoder) throws {
        try encoder.encode(self, as: .descriptor(self), called: "MessageDescriptor")
    }
}

extension Decodable where Self == MessageDescriptor {
    /// Decodes the number of the descriptor among the message's attachments. A descriptor that did not arrive with its
    /// message is decoded, too, and its use throws the reason.
    /// - Throws: `DecodingError`, also when no ``MessageCoder`` has made the decoder.
    public init(from decoder: any Decoder) throws {
        self = try decoder.attachment(called: "MessageDescriptor") { $0.descriptor($1) }
    }
}
