/// Decodes a value from an item.
struct CBORDecoder: Decoder {
    let reader: CBORReader
    let offset: Int

    var codingPath: [any CodingKey] { reader.path(to: offset) }
    var userInfo: [CodingUserInfoKey: Any] { reader.userInfo }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(CBORKeyedDecodingContainer(map: try CBORMap(reader, offset)))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { try CBORUnkeyedDecodingContainer(reader, offset) }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }
}

extension CBORDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { (try? reader.isNull(at: offset)) ?? false }

    @inline(__always)
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try reader.decode(type, at: offset) }
}

struct CBORKeyedDecodingContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let map: CBORMap

    var codingPath: [any CodingKey] { map.reader.path(to: map.start) }
    var allKeys: [Key] { (try? map.keys(Key.self)) ?? [] }

    func contains(_ key: Key) -> Bool { (try? map.value(of: key)) != nil }

    func decodeNil(forKey key: Key) throws -> Bool { try map.reader.isNull(at: value(of: key)) }

    @inline(__always)
    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try map.reader.decode(type, at: value(of: key))
    }

    @inline(__always)
    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        guard let value = try map.value(of: key), try !map.reader.isNull(at: value) else { return nil }
        return try map.reader.decode(type, at: value)
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> {
        try superDecoder(forKey: key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try superDecoder(forKey: key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder {
        CBORDecoder(reader: map.reader, offset: try value(of: CBORKey.superclass))
    }

    func superDecoder(forKey key: Key) throws -> any Decoder {
        CBORDecoder(reader: map.reader, offset: try value(of: key))
    }

    @inline(__always) private func value(of key: some CodingKey) throws -> Int {
        if let value = try map.value(of: key) { return value }
        throw DecodingError.keyNotFound(
            key, .init(codingPath: codingPath, debugDescription: "the map has no key \"\(key.stringValue)\""))
    }
}

struct CBORUnkeyedDecodingContainer: UnkeyedDecodingContainer {
    private let reader: CBORReader
    private let start: Int
    private let head: CBORHead
    /// The elements of a byte string, which is read as an array of `UInt8`; nil for an array.
    private let bytes: [UInt8]?
    /// The offset of the next element.
    private var offset: Int
    private(set) var currentIndex = 0
    private(set) var isAtEnd: Bool

    init(_ reader: CBORReader, _ start: Int) throws {
        let items = reader.isStringOrTagged(at: start) ? try reader.numberItems(at: start) : nil
        let (reader, start) = items.map { (CBORReader($0, inPlaceOf: start, in: reader), 0) } ?? (reader, start)
        head = try reader.untaggedHead(at: start)
        (self.reader, self.start, offset) = (reader, start, head.end)
        switch head.major {
        case .array: (bytes, isAtEnd) = (nil, reader.isEnd(at: offset, of: head, after: 0))
        case .bytes:
            let payload = try reader.payload(ofString: head)
            (bytes, isAtEnd) = (payload, payload.isEmpty)
        default: throw reader.mismatch([Any].self, at: start)
        }
    }

    var codingPath: [any CodingKey] { reader.path(to: start) }
    var count: Int? { bytes?.count ?? (head.isIndefinite ? nil : Int(exactly: head.number)) }

    mutating func decodeNil() throws -> Bool {
        if bytes != nil { return false }
        guard !isAtEnd else { throw atEnd(Any?.self) }
        guard try reader.isNull(at: offset) else { return false }
        return try next(Any?.self) { _ in true }
    }

    @inline(__always)
    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        if bytes == nil { return try next(type) { [reader] in try reader.decode(type, at: $0) } }
        return try decodeByte(type)
    }

    /// Not inlined: a generic function that is not specialised would look the types in here up for each element.
    @inline(never)
    private mutating func decodeByte<Value: Decodable>(_ type: Value.Type) throws -> Value {
        guard !isAtEnd, let bytes else { throw atEnd(type) }
        guard let byte = bytes[currentIndex] as? Value else { throw reader.mismatch([Value].self, at: start) }
        currentIndex += 1
        isAtEnd = currentIndex == bytes.count
        return byte
    }

    mutating func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type
    ) throws -> KeyedDecodingContainer<NestedKey> {
        try next([String: Any].self) { [reader] in
            try CBORDecoder(reader: reader, offset: $0).container(keyedBy: type)
        }
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try next([Any].self) { [reader] in try CBORUnkeyedDecodingContainer(reader, $0) }
    }

    mutating func superDecoder() throws -> any Decoder {
        try next((any Decoder).self) { [reader] in CBORDecoder(reader: reader, offset: $0) }
    }

    /// Takes the next element, unless `body` throws.
    @inline(__always)
    private mutating func next<Element>(_ type: Any.Type, _ body: (Int) throws -> Element) throws -> Element {
        guard !isAtEnd, bytes == nil else { throw atEnd(type) }
        if reader.outlivesParent { throw reader.truncated }
        let element = try body(offset)
        offset = try reader.end(ofItemAt: offset)
        currentIndex += 1
        isAtEnd = reader.isEnd(at: offset, of: head, after: UInt64(currentIndex))
        return element
    }

    private func atEnd(_ type: Any.Type) -> DecodingError {
        .valueNotFound(
            type, .init(codingPath: codingPath, debugDescription: "the array has no more than \(currentIndex) elements")
        )
    }
}
