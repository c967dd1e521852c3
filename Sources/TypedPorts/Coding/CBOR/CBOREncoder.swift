/// What a value encodes itself with: a place in the output.
struct CBOREncoder: Encoder {
    let writer: CBORWriter
    let id: Int

    var codingPath: [any CodingKey] { writer.path }
    var userInfo: [CodingUserInfoKey: Any] { writer.attachments.userInfo }

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
    func encodeNil() throws { try writer.writeSingle(in: id) { writer.writeNull() } }

    func encode<Value: Encodable>(_ value: Value) throws {
        try writer.writeSingle(in: id) { try writer.encode(value) }
    }
}

struct CBORKeyedEncodingContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let writer: CBORWriter
    let id: Int

    var codingPath: [any CodingKey] { writer.path }

    func encodeNil(forKey key: Key) throws { try writer.write(key, in: id) { writer.writeNull() } }

    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        try writer.write(key, in: id) { try writer.encode(value) }
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type, forKey key: Key
    ) -> KeyedEncodingContainer<NestedKey> {
        let nested = writer.nest(.map, key: key, in: id)
        return KeyedEncodingContainer(CBORKeyedEncodingContainer<NestedKey>(writer: writer, id: nested))
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        CBORUnkeyedEncodingContainer(writer: writer, id: writer.nest(.array, key: key, in: id))
    }

    func superEncoder() -> any Encoder {
        CBOREncoder(writer: writer, id: writer.nest(.slot, key: CBORKey.superclass, in: id))
    }

    func superEncoder(forKey key: Key) -> any Encoder {
        CBOREncoder(writer: writer, id: writer.nest(.slot, key: key, in: id))
    }
}

struct CBORUnkeyedEncodingContainer: UnkeyedEncodingContainer {
    let writer: CBORWriter
    let id: Int

    var codingPath: [any CodingKey] { writer.path }
    var count: Int { writer.count(of: id) }

    func encodeNil() throws { try writer.writeElement(in: id) { writer.writeNull() } }

    func encode<Value: Encodable>(_ value: Value) throws {
        try writer.writeElement(in: id) { try writer.encode(value) }
    }

    func encode<Bytes: Sequence>(contentsOf bytes: Bytes) throws where Bytes.Element == UInt8 {
        try writer.writeBytes(bytes, in: id)
    }

    func nestedContainer<NestedKey: CodingKey>(keyedBy type: NestedKey.Type) -> KeyedEncodingContainer<NestedKey> {
        let nested = writer.nest(.map, key: CBORKey?.none, in: id)
        return KeyedEncodingContainer(CBORKeyedEncodingContainer<NestedKey>(writer: writer, id: nested))
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
        CBORUnkeyedEncodingContainer(writer: writer, id: writer.nest(.array, key: CBORKey?.none, in: id))
    }

    func superEncoder() -> any Encoder {
        CBOREncoder(writer: writer, id: writer.nest(.slot, key: CBORKey?.none, in: id))
    }
}
