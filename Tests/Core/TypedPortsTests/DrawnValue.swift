import TestSupport

/// A value that a seed determines. It encodes itself with all calls that encoders and containers have, and fills the
/// containers by turns.
struct DrawnValue: Encodable {
    let seed: UInt64
    /// How many values lie inside one another, at most.
    let depth: Int
    /// Whether some values inside fail, which leave no trace: JSONEncoder crashes after an error that was caught.
    let hasFailures: Bool

    func encode(to encoder: any Encoder) throws {
        var turns = DrawnTurns(random: SplitMix64(seed: seed), depth: depth, hasFailures: hasFailures)
        try turns.encode(to: encoder)
    }
}

/// Encodes something, and fails.
private struct FailingValue: Encodable {
    struct Failure: Error {}

    let value: DrawnValue

    func encode(to encoder: any Encoder) throws {
        var container = encoder.unkeyedContainer()
        var nested = container.nestedUnkeyedContainer()
        try container.encode(value)
        try nested.encode(value)
        throw Failure()
    }
}

/// The containers of one ``DrawnValue``.
private struct DrawnTurns {
    private struct Key: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    private enum Place {
        case encoder(any Encoder)
        case keyedEncoder(any Encoder, map: Int)
        case unkeyedEncoder(any Encoder)
        case usedEncoder(any Encoder)
        case keyed(KeyedEncodingContainer<Key>, map: Int)
        case unkeyed(any UnkeyedEncodingContainer)
    }

    private var random: SplitMix64
    private let depth: Int
    private let hasFailures: Bool
    private var places: [(place: Place, nesting: Int)] = []
    private var keyCount = 0
    private var mapCount = 0
    /// The maps that have a superclass.
    private var subclasses: Set<Int> = []

    init(random: SplitMix64, depth: Int, hasFailures: Bool) {
        (self.random, self.depth, self.hasFailures) = (random, depth, hasFailures)
    }

    mutating func encode(to encoder: any Encoder) throws {
        places = [(.encoder(encoder), 0)]
        for _ in 0..<draw(40) { try step() }
        // JSONEncoder inserts the value of a super encoder when the encoder is released. The value gets its right place
        // if the last encoder goes first.
        while places.popLast() != nil {}
    }

    private mutating func draw(_ bound: Int) -> Int { .random(in: 0..<bound, using: &random) }

    /// Comes once in a value.
    private mutating func newKey() -> Key {
        keyCount += 1
        return Key(stringValue: "k\(keyCount)" + String(repeating: "é", count: draw(20) == 0 ? 100 : 0))
    }

    private mutating func newMap() -> Int {
        mapCount += 1
        return mapCount
    }

    private mutating func newValue() -> DrawnValue {
        DrawnValue(seed: random.next(), depth: depth - 1, hasFailures: hasFailures)
    }

    /// Calls `encode` with a value that fails, and catches the error.
    private mutating func encodeFailingValue(_ encode: (FailingValue) throws -> Void) {
        let failing = FailingValue(value: newValue())
        if hasFailures { try? encode(failing) }
    }

    private mutating func newText() -> String { ["", "text", String(repeating: "long ", count: 60)][draw(3)] }

    private mutating func step() throws {
        let index = draw(places.count)
        let (place, nesting) = places[index]
        switch place {
        case .encoder(let encoder): places[index].place = try use(encoder, nesting)
        case .keyedEncoder(let encoder, let map):
            places.append((.keyed(encoder.container(keyedBy: Key.self), map: map), nesting))
        case .unkeyedEncoder(let encoder): places.append((.unkeyed(encoder.unkeyedContainer()), nesting))
        case .usedEncoder: break
        case .keyed(var container, let map):
            for _ in 0..<(draw(10) == 0 ? 30 : 1) { try fill(&container, map, nesting) }
            places[index].place = .keyed(container, map: map)
        case .unkeyed(var container):
            for _ in 0..<(draw(10) == 0 ? 30 : 1) { try fill(&container, nesting) }
            places[index].place = .unkeyed(container)
        }
    }

    private mutating func use(_ encoder: any Encoder, _ nesting: Int) throws -> Place {
        var single = encoder.singleValueContainer()
        switch draw(10) {
        case 0: try single.encodeNil()
        case 1: try single.encode(draw(1 << 40))
        case 2: try single.encode(newText())
        case 3 where depth > 0: try single.encode(newValue())
        case 4 where depth > 0: try newValue().encode(to: encoder)
        case 5 where depth > 0:
            encodeFailingValue { try single.encode($0) }
            try single.encode([newText(): 1])
        case 6, 7:
            let map = newMap()
            places.append((.keyed(encoder.container(keyedBy: Key.self), map: map), nesting))
            return .keyedEncoder(encoder, map: map)
        default:
            places.append((.unkeyed(encoder.unkeyedContainer()), nesting))
            return .unkeyedEncoder(encoder)
        }
        return .usedEncoder(encoder)
    }

    private mutating func fill(_ container: inout KeyedEncodingContainer<Key>, _ map: Int, _ nesting: Int) throws {
        let key = newKey()
        switch draw(15) {
        case 0: try container.encodeNil(forKey: key)
        case 1: try container.encode(draw(2) == 0, forKey: key)
        case 2: try container.encode(Double(draw(100)) + 0.5, forKey: key)
        case 3: try container.encode(newText(), forKey: key)
        case 4: try container.encode([UInt8(draw(256)), 7], forKey: key)
        case 5: try container.encodeIfPresent(draw(2) == 0 ? nil : newText(), forKey: key)
        case 6: try container.encode(draw(2) == 0 ? nil : draw(300), forKey: key)
        case 7 where depth > 0: try container.encode(newValue(), forKey: key)
        case 8 where depth > 0: encodeFailingValue { try container.encode($0, forKey: key) }
        case 9 where nesting < 6:
            places.append(
                (.keyed(container.nestedContainer(keyedBy: Key.self, forKey: key), map: newMap()), nesting + 1))
        case 10 where nesting < 6:
            places.append((.unkeyed(container.nestedUnkeyedContainer(forKey: key)), nesting + 1))
        case 11 where nesting < 6: places.append((.encoder(container.superEncoder(forKey: key)), nesting + 1))
        case 12 where nesting < 6 && subclasses.insert(map).inserted:
            places.append((.encoder(container.superEncoder()), nesting + 1))
        default: try container.encode(draw(1 << 20) - 1 << 19, forKey: key)
        }
    }

    private mutating func fill(_ container: inout any UnkeyedEncodingContainer, _ nesting: Int) throws {
        switch draw(15) {
        case 0: try container.encodeNil()
        case 1: try container.encode(draw(2) == 0)
        case 2: try container.encode(Double(draw(100)) + 0.5)
        case 3: try container.encode(newText())
        case 4: try container.encode(contentsOf: (0..<draw(30)).map { UInt8($0 * 8) })
        case 5: try container.encode(contentsOf: (0..<draw(30)).map { $0 * 1000 })
        case 6: try container.encode(draw(2) == 0 ? nil : draw(300))
        case 7 where depth > 0: try container.encode(newValue())
        case 8 where depth > 0: encodeFailingValue { try container.encode($0) }
        case 9 where nesting < 6:
            places.append((.keyed(container.nestedContainer(keyedBy: Key.self), map: newMap()), nesting + 1))
        case 10 where nesting < 6: places.append((.unkeyed(container.nestedUnkeyedContainer()), nesting + 1))
        case 11 where nesting < 6: places.append((.encoder(container.superEncoder()), nesting + 1))
        default: try container.encode(draw(1 << 20) - 1 << 19)
        }
    }
}
