/// A value without a type, as JSON has them.
indirect enum PlainItem: Equatable {
    case null
    case bool(Bool)
    case number(Double)
    case text(String)
    case list([PlainItem])
    case map([String: PlainItem])
}

extension PlainItem: Decodable {
    /// Tries one type after the other. Bytes become a list of numbers.
    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let bool = try? container.decode(Bool.self) {
            self = .bool(bool)
        } else if let number = try? container.decode(Double.self) {
            self = .number(number)
        } else if let text = try? container.decode(String.self) {
            self = .text(text)
        } else if let bytes = try? container.decode([UInt8].self) {
            self = .list(bytes.map { .number(Double($0)) })
        } else if let list = try? container.decode([PlainItem].self) {
            self = .list(list)
        } else {
            self = .map(try container.decode([String: PlainItem].self))
        }
    }
}

/// Reads CBOR by the letter of RFC 8949, appendix C, and shares no code with `CBORCoder`.
struct PlainCBORReader {
    struct Malformed: Error {}

    private var rest: ArraySlice<UInt8>

    /// The item that is all of the bytes.
    static func item(of bytes: [UInt8]) throws -> PlainItem {
        var reader = PlainCBORReader(rest: bytes[...])
        guard let item = try reader.item(), reader.rest.isEmpty else { throw Malformed() }
        return item
    }

    private mutating func number(of count: Int) throws -> UInt64 {
        guard rest.count >= count else { throw Malformed() }
        defer { rest.removeFirst(count) }
        return rest.prefix(count).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// The next item; nil for a break.
    private mutating func item() throws -> PlainItem? {
        let first = Int(try number(of: 1))
        let (major, low) = (first / 32, first % 32)
        if first == 0xFF { return nil }
        let argument: UInt64? =
            switch low {
            case 0..<24: UInt64(low)
            case 24...27: try number(of: 1 << (low - 24))
            case 31 where major == 4 || major == 5: nil
            default: throw Malformed()
            }
        switch (major, argument) {
        case (0, let number?): return .number(Double(number))
        case (1, let number?): return .number(-1 - Double(number))
        case (2, let count?): return .list(try (0..<count).map { _ in .number(Double(try number(of: 1))) })
        case (3, let count?):
            guard let text = String(validating: try (0..<count).map { _ in UInt8(try number(of: 1)) }, as: UTF8.self)
            else { throw Malformed() }
            return .text(text)
        case (4, let count): return .list(try items(count))
        case (5, let count):
            let items = try items(count.map { 2 * $0 })
            guard items.count % 2 == 0 else { throw Malformed() }
            var map: [String: PlainItem] = [:]
            for index in stride(from: 0, to: items.count, by: 2) {
                guard case .text(let key) = items[index], map.updateValue(items[index + 1], forKey: key) == nil else {
                    throw Malformed()
                }
            }
            return .map(map)
        case (7, let value?):
            switch low {
            case 20, 21: return .bool(low == 21)
            case 22: return .null
            case 25: return .number(Double(Float16(bitPattern: UInt16(value))))
            case 26: return .number(Double(Float(bitPattern: UInt32(value))))
            case 27: return .number(Double(bitPattern: value))
            default: throw Malformed()
            }
        default: throw Malformed()
        }
    }

    /// So many items, or those before the break.
    private mutating func items(_ count: UInt64?) throws -> [PlainItem] {
        var items: [PlainItem] = []
        while count.map({ items.count < $0 }) ?? true {
            guard let item = try item() else {
                if count == nil { return items }
                throw Malformed()
            }
            items.append(item)
        }
        return items
    }
}
