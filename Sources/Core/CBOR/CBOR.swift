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
        // A single item needs no writer, and no closure that escapes.
        if bytes.write(wholeItem: value) { return }
        try withoutActuallyEscaping(userInfo) { userInfo in
            var series = CBORSeries(depthLimit: depthLimit, userInfo: userInfo)
            try series.encodeByItself(value, into: &bytes)
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
        try withoutActuallyEscaping(userInfo) { userInfo in
            var series = CBORSeries(depthLimit: depthLimit, userInfo: userInfo)
            return try series.decode(type, from: bytes)
        }
    }
}
