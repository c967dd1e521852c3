/// Encodes or decodes values one after the other, in two thirds of the time that each takes by itself.
package struct CBORSeries: @unchecked Sendable {
    // Sound: the writer and the reader are used only while nobody else has them, and the closure is called only while a
    // value is coded.

    private let depthLimit: Int
    private let makeUserInfo: () -> [CodingUserInfoKey: Any]
    private var writer: CBORWriter?
    private var reader: CBORReader?

    /// - Parameters:
    ///   - depthLimit: How many arrays, maps and tags may lie inside one another. Each takes room on the stack.
    ///   - userInfo: Makes the `userInfo` of encoders and decoders. Called for each value that asks for it, and for no other
    ///     one.
    package init(depthLimit: Int, userInfo: @escaping () -> [CodingUserInfoKey: Any]) {
        (self.depthLimit, makeUserInfo) = (depthLimit, userInfo)
    }

    /// Appends the value as one item.
    /// - Throws: `EncodingError`, and the errors of the value's `encode(to:)`. Then what was appended is not to be used.
    package mutating func encode<Value: Encodable>(_ value: Value, into bytes: inout [UInt8]) throws {
        if !bytes.write(wholeItem: value) { try encodeByItself(value, into: &bytes) }
    }

    /// Appends a value that is no single item.
    mutating func encodeByItself<Value: Encodable>(_ value: Value, into bytes: inout [UInt8]) throws {
        if depthLimit > 0, bytes.write(numbers: value) { return }
        let writer = Self.unique(&writer, CBORWriter.init)
        writer.begin(after: bytes.count, depthLimit: depthLimit, makeUserInfo: makeUserInfo)
        swap(&writer.bytes, &bytes)
        defer {
            swap(&writer.bytes, &bytes)
            writer.end()
        }
        try value.encode(to: CBOREncoder(writer: writer, id: 1))
        writer.close(nestedFrom: 0)
        if let fault = writer.fault { throw fault }
    }

    /// Decodes the value that is all of the bytes.
    /// - Throws: `DecodingError`, and the errors of the value's `init(from:)`.
    package mutating func decode<Value: Decodable>(_ type: Value.Type, from bytes: RawSpan) throws -> Value {
        let reader = Self.unique(&reader, CBORReader.init)
        return try bytes.withUnsafeBytes { bytes in
            reader.begin(bytes, makeUserInfo: makeUserInfo)
            defer { reader.end() }
            try reader.check(depthLimit: depthLimit)
            return try reader.decode(type, at: 0)
        }
    }

    /// The kept object, unless a value has kept it, too, or a copy of the series has it.
    @inline(__always)
    private static func unique<Object: AnyObject>(_ kept: inout Object?, _ make: () -> Object) -> Object {
        if isKnownUniquelyReferenced(&kept), let kept { return kept }
        let made = make()
        kept = made
        return made
    }
}
