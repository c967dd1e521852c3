/// Encodes values as CBOR (RFC 8949), and decodes them.
///
/// The bytes may come from a peer that nobody trusts. They are checked before a value is decoded: an item that is
/// malformed, too deep, or not all of the bytes is a `DecodingError`, and so is an integer that does not fit in its type.
/// No length that the bytes state reserves memory before that many bytes are there.
package enum CBOR {
    /// The default for the number of arrays, maps and tags that may lie inside one another.
    package static let usualDepthLimit = 64

    /// Appends the value as one item.
    /// - Parameters:
    ///   - depthLimit: How many arrays, maps and tags may lie inside one another. Each takes room on the stack.
    ///   - userInfo: Makes the encoders' `userInfo`. Called for each value that asks for it, and for no other one.
    /// - Throws: `EncodingError`, and the errors of the value's `encode(to:)`. Then what was appended is not to be used.
    package static func encode<Value: Encodable>(
        _ value: Value, into bytes: inout [UInt8], depthLimit: Int = usualDepthLimit,
        userInfo: () -> [CodingUserInfoKey: Any] = { [:] }
    ) throws {
        if bytes.capacity == 0 { bytes.reserveCapacity(128) }
        if bytes.write(item: value) { return }
        try withoutActuallyEscaping(userInfo) { userInfo in
            let writer = CBORWriter(after: bytes.count, depthLimit: depthLimit, makeUserInfo: userInfo)
            swap(&writer.bytes, &bytes)
            defer {
                swap(&writer.bytes, &bytes)
                writer.end()
            }
            try value.encode(to: CBOREncoder(writer: writer, id: 1))
            writer.close(nestedFrom: 0)
            if let fault = writer.fault { throw fault }
        }
    }

    /// Decodes the value that is all of the bytes.
    /// - Parameters:
    ///   - depthLimit: How many arrays, maps and tags may lie inside one another. Each takes room on the stack.
    ///   - userInfo: Makes the decoders' `userInfo`. Called for each value that asks for it, and for no other one.
    /// - Throws: `DecodingError`, and the errors of the value's `init(from:)`.
    package static func decode<Value: Decodable>(
        _ type: Value.Type = Value.self, from bytes: RawSpan, depthLimit: Int = usualDepthLimit,
        userInfo: () -> [CodingUserInfoKey: Any] = { [:] }
    ) throws -> Value {
        try bytes.withUnsafeBytes { bytes in
            try withoutActuallyEscaping(userInfo) { userInfo in
                let reader = CBORReader(bytes, makeUserInfo: userInfo)
                defer { reader.end() }
                try reader.check(depthLimit: depthLimit)
                return try reader.decode(type, at: 0)
            }
        }
    }
}
