import CBOR

/// Codes values between processes as CBOR. A decoded value is within bounds, whatever the other process has written: a
/// text is cut, a list loses its end, and a number is moved into its range, so that no sum overflows.
package enum BoundedCoding {
    /// The most bytes of a text, and the most elements of a list.
    package static let most = 1024
    /// The largest count. Sums of a few thousand such counts do not overflow.
    package static let mostCount = 1 << 48
    /// The end of the year 9999, in seconds since 1970: the largest time.
    fileprivate static let lastTime = 253_402_300_799.0

    package static func encode(_ value: some Encodable) -> [UInt8] {
        var bytes: [UInt8] = []
        // Only a value that nests deeper than any of ours cannot be encoded.
        try? CBOR.encode(value, into: &bytes)
        return bytes
    }

    /// - Returns: Nil when the bytes are no such value.
    package static func decode<Value: Decodable>(_ type: Value.Type = Value.self, from bytes: [UInt8]) -> Value? {
        try? CBOR.decode(Bounded<Value>.self, from: bytes.span.bytes).value
    }
}

extension String {
    /// The beginning that fits ``BoundedCoding/most``.
    package var bounded: String {
        let most = BoundedCoding.most
        return utf8.count <= most ? self : String(decoding: utf8.prefix(most), as: UTF8.self)
    }
}

/// A value that decodes itself within its bounds: an `Int` is a count, a `Double` a time, and a duration not negative.
private struct Bounded<Value: Decodable>: Decodable {
    let value: Value

    init(from decoder: any Decoder) throws {
        let bounded: Any? =
            switch Value.self {
            case is Int.Type: min(max(0, try Int(from: decoder)), BoundedCoding.mostCount)
            case is Double.Type: Self.bounded(try Double(from: decoder))
            case is String.Type: try String(from: decoder).bounded
            case is Duration.Type: min(max(.zero, try Duration(from: decoder)), .nanoseconds(Int64.max))
            case is Bool.Type, is any FixedWidthInteger.Type: try Value(from: decoder)
            default: nil
            }
        value = try bounded as? Value ?? Value(from: BoundedDecoder(base: decoder))
    }

    private static func bounded(_ time: Double) -> Double {
        time.isFinite ? min(max(0, time), BoundedCoding.lastTime) : 0
    }
}

private struct BoundedDecoder: Decoder, SingleValueDecodingContainer {
    let base: any Decoder

    var codingPath: [any CodingKey] { base.codingPath }
    var userInfo: [CodingUserInfoKey: Any] { base.userInfo }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(KeyedBoundedDecoder(base: try base.container(keyedBy: type)))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        UnkeyedBoundedDecoder(base: try base.unkeyedContainer())
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }
    func decodeNil() -> Bool { (try? base.singleValueContainer().decodeNil()) ?? false }
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try Bounded<Value>(from: base).value }
}

private struct KeyedBoundedDecoder<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let base: KeyedDecodingContainer<Key>

    var codingPath: [any CodingKey] { base.codingPath }
    var allKeys: [Key] { base.allKeys }

    func contains(_ key: Key) -> Bool { base.contains(key) }
    func decodeNil(forKey key: Key) throws -> Bool { try base.decodeNil(forKey: key) }

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try base.decode(Bounded<Value>.self, forKey: key).value
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        KeyedDecodingContainer(KeyedBoundedDecoder<Nested>(base: try base.nestedContainer(keyedBy: type, forKey: key)))
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        UnkeyedBoundedDecoder(base: try base.nestedUnkeyedContainer(forKey: key))
    }

    func superDecoder() throws -> any Decoder { BoundedDecoder(base: try base.superDecoder()) }
    func superDecoder(forKey key: Key) throws -> any Decoder {
        BoundedDecoder(base: try base.superDecoder(forKey: key))
    }
}

private struct UnkeyedBoundedDecoder: UnkeyedDecodingContainer {
    var base: any UnkeyedDecodingContainer

    var codingPath: [any CodingKey] { base.codingPath }
    var count: Int? { base.count.map { min($0, BoundedCoding.most) } }
    var currentIndex: Int { base.currentIndex }
    var isAtEnd: Bool { base.isAtEnd || currentIndex >= BoundedCoding.most }

    mutating func decodeNil() throws -> Bool { try base.decodeNil() }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try base.decode(Bounded<Value>.self).value
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> {
        KeyedDecodingContainer(KeyedBoundedDecoder<Nested>(base: try base.nestedContainer(keyedBy: type)))
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        UnkeyedBoundedDecoder(base: try base.nestedUnkeyedContainer())
    }

    mutating func superDecoder() throws -> any Decoder { BoundedDecoder(base: try base.superDecoder()) }
}
