import FoundationCoding
import Ports

@testable import TypedPorts

/// Types that peers' bytes are decoded as.
enum FuzzedValue {
    /// What is wrong with what the bytes become; nil when nothing is.
    static func fault(in bytes: UnsafeRawBufferPointer) -> String? {
        fault(in: bytes, as: Item.self, CBORCoder()) ?? fault(in: bytes, as: Record.self, CBORCoder())
            ?? fault(in: bytes, as: [Record].self, CBORCoder()) ?? fault(in: bytes, as: Tree.self, CBORCoder())
            ?? fault(in: bytes, as: [Int: [UInt8]].self, CBORCoder()) ?? fault(in: bytes, as: [Int32].self, CBORCoder())
            ?? fault(in: bytes, as: [Set<Int64>].self, CBORCoder()) ?? fault(in: bytes, as: Item.self, JSONCoder())
            ?? fault(in: bytes, as: Record.self, JSONCoder()) ?? faultOfBatch(bytes)
    }

    /// The elements of a stream end, or are malformed.
    private static func faultOfBatch(_ bytes: UnsafeRawBufferPointer) -> String? {
        var batch = ReceivedBatch<Record>(MachPort.Message([.bytes(Array(bytes))]))
        var count = 0
        while (try? batch.popFirst(CBORCoder())) ?? nil != nil {
            count += 1
            // Each has four bytes of size and one of its own at least.
            if count > bytes.count / 5 { return "more elements than bytes" }
        }
        return nil
    }

    /// What decodes has to encode, and to be the same when that is decoded.
    private static func fault<Value: Codable & Equatable>(
        in bytes: UnsafeRawBufferPointer, as type: Value.Type, _ coder: some MessageCoder
    ) -> String? {
        guard let value = try? coder.decode(type, from: bytes.bytes, attachments: Attachments()) else { return nil }
        var encoded: [UInt8] = []
        var attachments = Attachments()
        do {
            try coder.encode(value, into: &encoded, attachments: &attachments)
            let same = try coder.decode(type, from: encoded.span.bytes, attachments: attachments)
            return same == value ? nil : "encoded, it is another \(type)"
        } catch { return "a \(type) cannot be sent on: \(error)" }
    }

    static let seeds: [[UInt8]] =
        [
            encoded(Record()), encoded([Record(), Record(name: "n", tree: .branch([.leaf(1), .branch([])]))]),
            encoded(Tree.branch([.leaf(7), .named(name: "x", .leaf(-1))])),
            encoded([1: [1, 2] as [UInt8], 2: []]),
            encoded(
                Item.map([
                    "a": .list([.null, .bool(true), .integer(-5), .number(Bits(number: 1.5))]), "b": .text("é"),
                    "": .map([:]),
                ])),
            Array(#"{"id":1,"name":"n","values":[1,2.5,null],"tree":{"leaf":{"_0":3}},"bytes":[1]}"#.utf8),
            // Indefinite lengths, a tag, all widths.
            [0xBF, 0x62, 0x69, 0x64, 0x01, 0x7F, 0x61, 0x61, 0x61, 0x62, 0xFF, 0xC1, 0xF9, 0x3C, 0x00, 0xFF],
            batch([Record(), Record(name: "n")]),
            [0x9F, 0x1B, 0, 0, 0, 1, 0, 0, 0, 0, 0x38, 0x63, 0xFA, 0x47, 0xC3, 0x50, 0, 0x5F, 0x41, 0, 0xFF, 0xFF],
        ]

    private static func batch(_ records: [Record]) -> [UInt8] {
        var batch = StreamBatch()
        for record in records { try? batch.append(record, CBORCoder()) }
        return if case .bytes(let bytes)? = batch.message.components.first { bytes } else { [] }
    }

    private static func encoded(_ value: some Encodable) -> [UInt8] {
        var bytes: [UInt8] = []
        var attachments = Attachments()
        try? CBORCoder().encode(value, into: &bytes, attachments: &attachments)
        return bytes
    }

    private struct Record: Codable, Equatable, Sendable {
        var id: Int32 = 5
        var name = "name"
        var wide: UInt128?
        var values: [Bits?]? = [Bits(number: 0.5), nil]
        var tree: Tree? = .leaf(3)
        var bytes: [UInt8]? = [1, 2, 3]
        var flags: [String: Bool]? = ["on": true]
    }

    private indirect enum Tree: Codable, Equatable, Sendable {
        case leaf(Int8)
        case named(name: String, Tree)
        case branch([Tree])
    }

    /// A number that is the same as itself, even if it is none.
    private struct Bits: Codable, Equatable, Sendable {
        var number: Double

        init(number: Double) { self.number = number }
        init(from decoder: any Decoder) throws { number = try decoder.singleValueContainer().decode(Double.self) }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(number)
        }
        static func == (left: Self, right: Self) -> Bool { left.number.bitPattern == right.number.bitPattern }
    }

    /// Takes anything, by trying one type after the other.
    private indirect enum Item: Codable, Equatable {
        case null
        case bool(Bool)
        case integer(Int64)
        case number(Bits)
        case text(String)
        case list([Item])
        case map([String: Item])

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if container.decodeNil() {
                self = .null
            } else if let bool = try? container.decode(Bool.self) {
                self = .bool(bool)
            } else if let integer = try? container.decode(Int64.self) {
                self = .integer(integer)
            } else if let number = try? container.decode(Bits.self) {
                self = .number(number)
            } else if let text = try? container.decode(String.self) {
                self = .text(text)
            } else if let list = try? container.decode([Item].self) {
                self = .list(list)
            } else {
                self = .map(try container.decode([String: Item].self))
            }
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .null: try container.encodeNil()
            case .bool(let bool): try container.encode(bool)
            case .integer(let integer): try container.encode(integer)
            case .number(let number): try container.encode(number)
            case .text(let text): try container.encode(text)
            case .list(let list): try container.encode(list)
            case .map(let map): try container.encode(map)
            }
        }
    }
}
