import TypedPorts

/// Encodes and decodes, as a message would.
func roundTrip<Value: Codable>(_ value: Value, _ coder: some MessageCoder) throws -> Value {
    var bytes: [UInt8] = []
    var attachments = Attachments()
    try coder.encode(value, into: &bytes, attachments: &attachments)
    return try coder.decode(Value.self, from: bytes.span.bytes, attachments: attachments)
}

func encoded(_ value: some Encodable, _ coder: some MessageCoder = CBORCoder()) throws -> [UInt8] {
    var bytes: [UInt8] = []
    var attachments = Attachments()
    try coder.encode(value, into: &bytes, attachments: &attachments)
    return bytes
}

func decoded<Value: Decodable>(
    _ type: Value.Type, _ bytes: [UInt8], _ coder: some MessageCoder = CBORCoder()
) throws -> Value {
    try coder.decode(type, from: bytes.span.bytes, attachments: Attachments())
}

struct Person: Codable, Hashable, Sendable {
    var id: Int32
    var name: String
    var value: Double
}

struct Everything: Codable, Hashable, Sendable {
    var bool = true
    var int8 = Int8.min
    var int16 = Int16.min
    var int32 = Int32.min
    var int64 = Int64.min
    var int = Int.max
    var uint8 = UInt8.max
    var uint16 = UInt16.max
    var uint32 = UInt32.max
    var uint64 = UInt64.max
    var uint = UInt.max
    var float = Float.greatestFiniteMagnitude
    var double = Double.leastNonzeroMagnitude
    var text = "日本語 \u{0} é 👩‍👩‍👧"
    var bytes: [UInt8] = [0, 255]
    var absent: Int?
    var present: String? = ""
    var list = [1, -1, 1000, -70000, 1 << 40]
    var nested = [[Person(id: 1, name: "a", value: 0.5)], []]
    var optionals: [Int?] = [nil, 4, nil]
    var byName = ["x": Person(id: 2, name: "b", value: -0.0), "": Person(id: 3, name: "c", value: .infinity)]
    var byNumber = [1: "one", -7: "minus seven"]
    var byPerson = [Person(id: 1, name: "key", value: 1): true]
    var set: Set<String> = ["p", "q"]
    var choice = Choice.both(1, name: "n")
    var choices: [Choice] = [.none, .one("x"), .both(2, name: nil), .more(.more(.none))]
    var kind = Kind.second
    var wrapper = Wrapper(inner: 77)
    var tuple = Pair(first: 1, second: "2")
}

indirect enum Choice: Codable, Hashable, Sendable {
    case none
    case one(String)
    case both(Int, name: String?)
    case more(Choice)
}

enum Kind: String, Codable, Sendable { case first, second }

struct Wrapper: Codable, Hashable, Sendable {
    var inner: Int

    init(inner: Int) { self.inner = inner }
    init(from decoder: any Decoder) throws { inner = try decoder.singleValueContainer().decode(Int.self) }
    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(inner)
    }
}

struct Pair: Codable, Hashable, Sendable {
    var first: Int
    var second: String

    init(first: Int, second: String) { (self.first, self.second) = (first, second) }
    init(from decoder: any Decoder) throws {
        var container = try decoder.unkeyedContainer()
        first = try container.decode(Int.self)
        second = try container.decode(String.self)
    }
    func encode(to encoder: any Encoder) throws {
        var container = encoder.unkeyedContainer()
        try container.encode(first)
        try container.encode(second)
    }
}

class Animal: Codable {
    var legs = 4
    init() {}
}

/// Its superclass shares the map.
final class Dog: Animal {
    var name = "Rex"

    enum CodingKeys: CodingKey { case name }

    override init() { super.init() }

    required init(from decoder: any Decoder) throws {
        name = try decoder.container(keyedBy: CodingKeys.self).decode(String.self, forKey: .name)
        try super.init(from: decoder)
    }

    override func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(name, forKey: .name)
        try super.encode(to: encoder)
    }
}

/// Its superclass has a map of its own, which it fills last.
final class Cat: Animal {
    var name = "Tom"
    var lives = 9

    enum CodingKeys: CodingKey { case name, lives }

    override init() { super.init() }

    required init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        name = try container.decode(String.self, forKey: .name)
        lives = try container.decode(Int.self, forKey: .lives)
        try super.init(from: container.superDecoder())
    }

    override func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(name, forKey: .name)
        let superEncoder = container.superEncoder()
        try container.encode(lives, forKey: .lives)
        try super.encode(to: superEncoder)
    }
}

/// Fills what it has opened by turns.
struct Interleaved: Codable, Hashable {
    var pairs: [String: [String: Int]]
    var rows: [[Int]]

    enum CodingKeys: CodingKey { case pairs, rows, end }

    struct Name: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    init(pairs: [String: [String: Int]], rows: [[Int]]) { (self.pairs, self.rows) = (pairs, rows) }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        pairs = try container.decode([String: [String: Int]].self, forKey: .pairs)
        rows = try container.decode([[Int]].self, forKey: .rows)
        guard try container.decode(Bool.self, forKey: .end) else { fatalError("the end is lost") }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        var pairsContainer = container.nestedContainer(keyedBy: Name.self, forKey: .pairs)
        var rowsContainer = container.nestedUnkeyedContainer(forKey: .rows)
        try container.encode(true, forKey: .end)
        var maps = pairs.keys.map { key in
            (
                pairsContainer.nestedContainer(keyedBy: Name.self, forKey: Name(stringValue: key)),
                Array(pairs[key] ?? [:])
            )
        }
        var lists = rows.map { (rowsContainer.nestedUnkeyedContainer(), $0) }
        while maps.contains(where: { !$0.1.isEmpty }) || lists.contains(where: { !$0.1.isEmpty }) {
            for index in maps.indices where !maps[index].1.isEmpty {
                let (key, value) = maps[index].1.removeFirst()
                try maps[index].0.encode(value, forKey: Name(stringValue: key))
            }
            for index in lists.indices where !lists[index].1.isEmpty {
                try lists[index].0.encode(lists[index].1.removeFirst())
            }
        }
    }
}
