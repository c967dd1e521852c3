/// Encodes a value at its place in the output.
struct CBOREncoder: Encoder {
    let writer: CBORWriter
    /// The id of the value's level in the writer.
    let id: Int

    var codingPath: [any CodingKey] { writer.path }
    var userInfo: [CodingUserInfoKey: Any] { writer.userInfo }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        writer.open(.map, id)
        return KeyedEncodingContainer(CBORKeyedEncodingContainer(writer: writer, id: id))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        writer.open(.array, id)
        return CBORUnkeyedEncodingContainer(writer: writer, id: id)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }
}

extension CBOREncoder: SingleValueEncodingContainer {
    func encodeNil() throws {
        try writer.beginSingle(in: id)
        writer.bytes.writeNull()
    }

    @inline(__always)
    func encode<Value: Encodable>(_ value: Value) throws {
        try writer.beginSingle(in: id)
        try writer.encode(value)
    }
}

struct CBORKeyedEncodingContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let writer: CBORWriter
    let id: Int

    var codingPath: [any CodingKey] { writer.path }

    func encodeNil(forKey key: Key) throws {
        try writer.beginEntry(key, in: id)
        writer.bytes.writeNull()
    }

    @inline(__always)
    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        try writer.beginEntry(key, in: id)
        try writer.encode(value)
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type, forKey key: Key
    ) -> KeyedEncodingContainer<NestedKey> {
        superEncoder(forKey: key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        superEncoder(forKey: key).unkeyedContainer()
    }

    func superEncoder() -> any Encoder { writer.nested(key: CBORKey.superclass, in: id) }

    func superEncoder(forKey key: Key) -> any Encoder { writer.nested(key: key, in: id) }
}

struct CBORUnkeyedEncodingContainer: UnkeyedEncodingContainer {
    let writer: CBORWriter
    let id: Int

    var codingPath: [any CodingKey] { writer.path }
    var count: Int { writer.count(of: id) }

    func encodeNil() throws {
        try writer.beginElement(in: id)
        writer.bytes.writeNull()
    }

    @inline(__always)
    func encode<Value: Encodable>(_ value: Value) throws {
        try writer.beginElement(in: id)
        try writer.encode(value)
    }

    func encode<Bytes: Sequence>(contentsOf bytes: Bytes) throws where Bytes.Element == UInt8 {
        try writer.writeBytes(bytes, in: id)
    }

    func nestedContainer<NestedKey: CodingKey>(keyedBy type: NestedKey.Type) -> KeyedEncodingContainer<NestedKey> {
        superEncoder().container(keyedBy: type)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { superEncoder().unkeyedContainer() }

    func superEncoder() -> any Encoder { writer.nested(key: nil, in: id) }
}
