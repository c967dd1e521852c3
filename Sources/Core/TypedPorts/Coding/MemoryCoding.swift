import Ports

extension Decoder {
    /// Makes memory of the descriptor among the message's attachments.
    fileprivate func memory<Memory>(_ make: (MessageDescriptor) throws(PortError) -> Memory) throws -> Memory {
        let descriptor = try MessageDescriptor(from: self)
        do { return try make(descriptor) } catch {
            throw DecodingError.dataCorrupted(
                .init(codingPath: codingPath, debugDescription: "\(error)", underlyingError: error))
        }
    }
}

extension SharedMemory: Codable {
    /// Adds a descriptor of the memory to the message's attachments, and encodes its number there.
    /// - Throws: `EncodingError`, when no ``MessageCoder`` has made the encoder; `PortError` when no descriptor is left.
    public func encode(to encoder: any Encoder) throws { try makeDescriptor().encode(to: encoder) }
}

extension Decodable where Self == SharedMemory {
    /// Maps the memory among the message's attachments. Nothing is copied.
    /// - Throws: `DecodingError`, also when no ``MessageCoder`` has made the decoder. Its underlying error is a `PortError`
    ///   when the memory has not arrived, or somebody can still change it.
    public init(from decoder: any Decoder) throws { self = try decoder.memory(SharedMemory.init) }
}

extension SharedBuffer: Codable {
    /// Adds a descriptor of the memory to the message's attachments, and encodes its number there.
    /// - Throws: `EncodingError`, when no ``MessageCoder`` has made the encoder; `PortError` when no descriptor is left.
    public func encode(to encoder: any Encoder) throws { try makeDescriptor().encode(to: encoder) }
}

extension Decodable where Self == SharedBuffer {
    /// Maps the memory among the message's attachments.
    /// - Throws: `DecodingError`, also when no ``MessageCoder`` has made the decoder. Its underlying error is a `PortError`
    ///   when the memory has not arrived, or somebody can still change its size.
    public init(from decoder: any Decoder) throws { self = try decoder.memory(SharedBuffer.init) }
}
