/// What a value encodes itself with: a place in the output. The writer is one of a pool, which never frees it.
struct CBOREncoder: Encoder {
    let writer: Unmanaged<CBORWriter>
    let id: Int

    var codingPath: [any CodingKey] { writer.use { $0.path } }
    var userInfo: [CodingUserInfoKey: Any] { writer.use { $0.userInfo } }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        writer.use { $0.open(.map, id) }
        return KeyedEncodingContainer(CBORKeyedEncodingContainer(writer: writer, id: id))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        writer.use { $0.open(.array, id) }
        return CBORUnkeyedEncodingContainer(writer: writer, id: id)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }
}

extension Unmanaged<CBORWriter> {
    @inline(__always) func use<R>(_ body: (CBORWriter) throws -> R) rethrows -> R {
        try _withUnsafeGuaranteedRef(body)
    }
}

extension CBOREncoder: SingleValueEncodingContainer {
    func encodeNil() throws {
        try writer.use { writer in try writer.writeSingle(in: id) { writer.writeNull() } }
    }

    @inline(__always)
    func encode<Value: Encodable>(_ value: Value) throws {
        try writer.use { writer in try writer.writeSingle(in: id) { try writer.encode(value) } }
    }
}

struct CBORKeyedEncodingContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let writer: Unmanaged<CBORWriter>
    let id: Int

    var codingPath: [any CodingKey] { writer.use { $0.path } }

    func encodeNil(forKey key: Key) throws {
        try writer.use { writer in try writer.write(key, in: id) { writer.writeNull() } }
    }

    @inline(__always)
    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        try writer.use { writer in try writer.write(key, in: id) { try writer.encode(value) } }
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type, forKey key: Key
    ) -> KeyedEncodingContainer<NestedKey> {
        let nested = writer.use { $0.nest(.map, key: key, in: id) }
        return KeyedEncodingContainer(CBORKeyedEncodingContainer<NestedKey>(writer: writer, id: nested))
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        CBORUnkeyedEncodingContainer(writer: writer, id: writer.use { $0.nest(.array, key: key, in: id) })
    }

    func superEncoder() -> any Encoder {
        CBOREncoder(writer: writer, id: writer.use { $0.nest(.slot, key: CBORKey.superclass, in: id) })
    }

    func superEncoder(forKey key: Key) -> any Encoder {
        CBOREncoder(writer: writer, id: writer.use { $0.nest(.slot, key: key, in: id) })
    }
}

struct CBORUnkeyedEncodingContainer: UnkeyedEncodingContainer {
    let writer: Unmanaged<CBORWriter>
    let id: Int

    var codingPath: [any CodingKey] { writer.use { $0.path } }
    var count: Int { writer.use { $0.count(of: id) } }

    func encodeNil() throws {
        try writer.use { writer in try writer.writeElement(in: id) { writer.writeNull() } }
    }

    @inline(__always)
    func encode<Value: Encodable>(_ value: Value) throws {
        try writer.use { writer in try writer.writeElement(in: id) { try writer.encode(value) } }
    }

    func encode<Bytes: Sequence>(contentsOf bytes: Bytes) throws where Bytes.Element == UInt8 {
        try writer.use { try $0.writeBytes(bytes, in: id) }
    }

    func nestedContainer<NestedKey: CodingKey>(keyedBy type: NestedKey.Type) -> KeyedEncodingContainer<NestedKey> {
        let nested = writer.use { $0.nest(.map, key: CBORKey?.none, in: id) }
        return KeyedEncodingContainer(CBORKeyedEncodingContainer<NestedKey>(writer: writer, id: nested))
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
        CBORUnkeyedEncodingContainer(writer: writer, id: writer.use { $0.nest(.array, key: CBORKey?.none, in: id) })
    }

    func superEncoder() -> any Encoder {
        CBOREncoder(writer: writer, id: writer.use { $0.nest(.slot, key: CBORKey?.none, in: id) })
    }
}
