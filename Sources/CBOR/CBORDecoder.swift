/// One use of a reader of the pool, which never frees it.
struct CBORReaderUse {
    private let reader: Unmanaged<CBORReader>
    private let generation: UInt32

    // An initializer takes its parameters retained, unless they are borrowed.
    init(_ reader: borrowing CBORReader) { (self.reader, generation) = (.passUnretained(reader), reader.generation) }

    /// Lets `body` use the reader, unless that decodes another value by now.
    @inline(__always) func callAsFunction<R>(_ body: (CBORReader) throws -> R) throws -> R {
        try reader._withUnsafeGuaranteedRef { reader in
            guard reader.generation == generation else {
                throw DecodingError.dataCorrupted(
                    .init(codingPath: [], debugDescription: "a container was used after its value was decoded"))
            }
            return try body(reader)
        }
    }

    func path(to offset: Int) -> [any CodingKey] { (try? self { $0.path(to: offset) }) ?? [] }
}

/// What a value decodes itself from: an item.
struct CBORDecoder: Decoder {
    let reader: CBORReaderUse
    let offset: Int

    var codingPath: [any CodingKey] { reader.path(to: offset) }
    var userInfo: [CodingUserInfoKey: Any] { (try? reader { $0.userInfo }) ?? [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(try reader { try CBORKeyedDecodingContainer($0, offset) })
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try reader { try CBORUnkeyedDecodingContainer($0, offset) }
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }
}

extension CBORDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { (try? reader { try $0.isNull(at: offset) }) ?? false }

    @inline(__always)
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try reader { try $0.decode(type, at: offset) }
    }
}

struct CBORKeyedDecodingContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let reader: CBORReaderUse
    let search: CBORMapSearch.ID

    init(_ reader: borrowing CBORReader, _ offset: Int) throws {
        let head = try reader.untaggedHead(at: offset)
        guard head.major == .map else { throw reader.mismatch([String: Any].self, at: offset) }
        (self.reader, search) = (CBORReaderUse(reader), reader.newSearch(start: offset, head))
    }

    var codingPath: [any CodingKey] { reader.path(to: search.start) }
    var allKeys: [Key] { (try? reader { try $0.keys(Key.self, search) }) ?? [] }

    func contains(_ key: Key) -> Bool { (try? reader { try $0.value(of: key, search) }) != nil }

    func decodeNil(forKey key: Key) throws -> Bool {
        try reader { try $0.isNull(at: $0.presentValue(of: key, search)) }
    }

    @inline(__always)
    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try reader { try $0.decode(type, at: $0.presentValue(of: key, search)) }
    }

    @inline(__always)
    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        try reader { reader in
            guard let value = try reader.value(of: key, search), try !reader.isNull(at: value) else { return nil }
            return try reader.decode(type, at: value)
        }
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> {
        KeyedDecodingContainer(
            try reader { try CBORKeyedDecodingContainer<NestedKey>($0, $0.presentValue(of: key, search)) })
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try reader { try CBORUnkeyedDecodingContainer($0, $0.presentValue(of: key, search)) }
    }

    func superDecoder() throws -> any Decoder {
        CBORDecoder(reader: reader, offset: try reader { try $0.presentValue(of: CBORKey.superclass, search) })
    }

    func superDecoder(forKey key: Key) throws -> any Decoder {
        CBORDecoder(reader: reader, offset: try reader { try $0.presentValue(of: key, search) })
    }
}

struct CBORUnkeyedDecodingContainer: UnkeyedDecodingContainer {
    private enum Elements {
        case items(CBORReader.Head)
        /// Of a byte string, which is read as an array of `UInt8`.
        case bytes([UInt8])
    }

    private let reader: CBORReaderUse
    private let start: Int
    private let elements: Elements
    /// The offset of the next element.
    private var offset: Int
    private(set) var currentIndex = 0
    private(set) var isAtEnd: Bool

    init(_ reader: borrowing CBORReader, _ start: Int) throws {
        let head = try reader.untaggedHead(at: start)
        (self.reader, self.start, offset) = (CBORReaderUse(reader), start, head.end)
        switch head.major {
        case .array:
            elements = .items(head)
            isAtEnd = reader.isEnd(at: offset, of: head, after: 0)
        case .bytes:
            let bytes = try reader.payload(ofString: head)
            elements = .bytes(bytes)
            isAtEnd = bytes.isEmpty
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

    mutating func decodeNil() throws -> Bool {
        guard case .items = elements else { return false }
        guard !isAtEnd else { throw atEnd(Any?.self) }
        guard try reader({ try $0.isNull(at: offset) }) else { return false }
        return try next(Any?.self) { _, _ in true }
    }

    @inline(__always)
    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        if case .items = elements { return try next(type) { try $0.decode(type, at: $1) } }
        return try decodeByte(type)
    }

    /// Not inlined: a generic function that is not specialised would look the types in here up for each element.
    @inline(never)
    private mutating func decodeByte<Value: Decodable>(_ type: Value.Type) throws -> Value {
        guard !isAtEnd, case .bytes(let bytes) = elements else { throw atEnd(type) }
        guard let byte = bytes[currentIndex] as? Value else {
            throw try reader { $0.mismatch([Value].self, at: start) }
        }
        currentIndex += 1
        isAtEnd = currentIndex == bytes.count
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
        try next((any Decoder).self) { CBORDecoder(reader: CBORReaderUse($0), offset: $1) }
    }

    /// Takes the next element, unless `body` throws.
    @inline(__always)
    private mutating func next<Element>(_ type: Any.Type, _ body: (CBORReader, Int) throws -> Element) throws -> Element
    {
        guard !isAtEnd, case .items(let head) = elements else { throw atEnd(type) }
        let element = try reader { try body($0, offset) }
        (offset, isAtEnd) = try reader { reader in
            let next = try reader.end(ofItemAt: offset)
            return (next, reader.isEnd(at: next, of: head, after: UInt64(currentIndex + 1)))
        }
        currentIndex += 1
        return element
    }

    private func atEnd(_ type: Any.Type) -> DecodingError {
        .valueNotFound(
            type, .init(codingPath: codingPath, debugDescription: "the array has no more than \(currentIndex) elements")
        )
    }
}
