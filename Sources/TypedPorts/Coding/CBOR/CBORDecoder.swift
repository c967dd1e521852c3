/// What a value decodes itself from: an item.
struct CBORDecoder: Decoder {
    let reader: CBORReader
    let offset: Int

    var codingPath: [any CodingKey] { reader.path(to: offset) }
    var userInfo: [CodingUserInfoKey: Any] {
        var attachments = reader.attachments
        return attachments.userInfo
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(try CBORKeyedDecodingContainer(reader, offset))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try CBORUnkeyedDecodingContainer(reader, offset)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }
}

extension CBORDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { (try? reader.isNull(at: offset)) ?? false }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try reader.decode(type, at: offset) }
}

struct CBORKeyedDecodingContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let reader: CBORReader
    let offset: Int
    /// The number of the map's search.
    let search: Int

    init(_ reader: CBORReader, _ offset: Int) throws {
        let head = try reader.untaggedHead(at: offset)
        guard head.major == .map else { throw reader.mismatch([String: Any].self, at: offset) }
        (self.reader, self.offset, search) = (reader, offset, reader.searches.count)
        reader.searches.append(CBORMapSearch(start: offset, head))
    }

    var codingPath: [any CodingKey] { reader.path(to: offset) }

    var allKeys: [Key] {
        var names: Set<String> = []
        var keys: [Key] = []
        guard let head = try? reader.untaggedHead(at: offset) else { return [] }
        try? reader.entries(of: head) { (key, _) throws(CBORReader.Malformed) in
            if let number = try reader.integerKey(at: key) {
                if names.insert(String(number)).inserted, let key = Key(intValue: number) { keys.append(key) }
            } else if let name = try reader.name(at: key), names.insert(name).inserted, let key = Key(stringValue: name)
            {
                keys.append(key)
            }
        }
        return keys
    }

    func contains(_ key: Key) -> Bool { (try? find(key)) != nil }

    func decodeNil(forKey key: Key) throws -> Bool { try reader.isNull(at: value(of: key)) }

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try reader.decode(type, at: value(of: key))
    }

    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        guard let value = try find(key), try !reader.isNull(at: value) else { return nil }
        return try reader.decode(type, at: value)
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> {
        KeyedDecodingContainer(try CBORKeyedDecodingContainer<NestedKey>(reader, value(of: key)))
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try CBORUnkeyedDecodingContainer(reader, value(of: key))
    }

    func superDecoder() throws -> any Decoder {
        CBORDecoder(reader: reader, offset: try value(of: CBORKey.superclass))
    }

    func superDecoder(forKey key: Key) throws -> any Decoder {
        CBORDecoder(reader: reader, offset: try value(of: key))
    }

    @inline(__always) private func find(_ key: some CodingKey) throws -> Int? {
        guard search < reader.searches.count, reader.searches[search].start == offset else {
            throw reader.error("a container was used after its value was decoded", at: offset)
        }
        return try reader.value(of: key, search: search)
    }

    @inline(__always) private func value(of key: some CodingKey) throws -> Int {
        if let value = try find(key) { return value }
        throw DecodingError.keyNotFound(
            key, .init(codingPath: codingPath, debugDescription: "the map has no key \"\(key.stringValue)\""))
    }
}

struct CBORUnkeyedDecodingContainer: UnkeyedDecodingContainer {
    private enum Elements {
        case items(CBORReader.Head)
        /// Of a byte string, which is read as an array of `UInt8`.
        case bytes([UInt8])
    }

    private let reader: CBORReader
    private let start: Int
    private let elements: Elements
    /// The offset of the next element.
    private var offset: Int
    private(set) var currentIndex = 0

    init(_ reader: CBORReader, _ start: Int) throws {
        let head = try reader.untaggedHead(at: start)
        (self.reader, self.start, offset) = (reader, start, head.end)
        switch head.major {
        case .array: elements = .items(head)
        case .bytes: elements = .bytes(try reader.payload(ofString: head))
        default: throw reader.mismatch([Any].self, at: start)
        }
    }

    var codingPath: [any CodingKey] { reader.path(to: start) }

    var count: Int? {
        switch elements {
        case .items(let head): head.isIndefinite ? nil : Int(head.number)
        case .bytes(let bytes): bytes.count
        }
    }

    var isAtEnd: Bool {
        switch elements {
        case .items(let head): reader.isEnd(at: offset, of: head, after: UInt64(currentIndex))
        case .bytes(let bytes): currentIndex == bytes.count
        }
    }

    mutating func decodeNil() throws -> Bool {
        guard case .items = elements else { return false }
        guard !isAtEnd else { throw atEnd(Any?.self) }
        guard try reader.isNull(at: offset) else { return false }
        return try next(Any?.self) { _, _ in true }
    }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        guard case .bytes(let bytes) = elements else {
            return try next(type) { try $0.decode(type, at: $1) }
        }
        guard !isAtEnd else { throw atEnd(type) }
        guard let byte = bytes[currentIndex] as? Value else { throw reader.mismatch([Value].self, at: start) }
        currentIndex += 1
        return byte
    }

    mutating func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type
    ) throws -> KeyedDecodingContainer<NestedKey> {
        try next([String: Any].self) {
            KeyedDecodingContainer(try CBORKeyedDecodingContainer<NestedKey>($0, $1))
        }
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try next([Any].self) { try CBORUnkeyedDecodingContainer($0, $1) }
    }

    mutating func superDecoder() throws -> any Decoder {
        try next((any Decoder).self) { CBORDecoder(reader: $0, offset: $1) }
    }

    /// Takes the next element, unless `body` throws.
    @inline(__always)
    private mutating func next<Element>(_ type: Any.Type, _ body: (CBORReader, Int) throws -> Element) throws -> Element
    {
        guard !isAtEnd else { throw atEnd(type) }
        let element = try body(reader, offset)
        offset = try reader.end(ofItemAt: offset)
        currentIndex += 1
        return element
    }

    private func atEnd(_ type: Any.Type) -> DecodingError {
        .valueNotFound(
            type, .init(codingPath: codingPath, debugDescription: "the array has no more than \(currentIndex) elements")
        )
    }
}
