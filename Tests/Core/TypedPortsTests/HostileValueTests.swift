import FoundationCoding
import OwnThread
import TestSupport
import Testing
import TypedPorts

/// Bytes of peers that mean harm.
@Suite(.ownThread) struct HostileValueTests {
    @Test(
        arguments: [
            // Nothing, reserved heads, breaks, a simple value in a long form.
            "", "1c", "1d", "1e", "1f", "3f", "dfff", "fc", "ff", "81ff", "a1ff", "bf01ff", "f800", "f81f",
            // Chunks of another kind, or inside one another.
            "5f6161ff", "7f4161ff", "5f5f4100ffff", "5f00ff",
            // More than there is.
            "5bffffffffffffffff", "7bffffffffffffffff", "9bffffffffffffffff", "bbffffffffffffffff", "9a7fffffff00",
            "bb800000000000000000", "42", "61", "9f", "bf", "5f", "7f", "c1", "a161", "a16161", "bf6161",
            // Something behind.
            "0000", "8000", "f6f6",
        ])
    func `malformed bytes are refused`(_ item: String) {
        #expect(throws: DecodingError.self) { try decoded(Anything.self, hex(item)) }
        #expect(throws: DecodingError.self) { try decoded([Anything].self, hex("81" + item)) }
    }

    @Test func `a text that is no UTF-8 is refused`() {
        for item in ["61ff", "62c328", "63eda080", "64f4908080", "7f61c361a9ff"] {
            #expect(throws: DecodingError.self) { try decoded(String.self, hex(item)) }
            #expect(throws: DecodingError.self) {
                try decoded(Person.self, hex("a3626964016576616c756502646e616d65" + item))
            }
        }
    }

    @Test func `a number that does not fit is refused`() {
        #expect(throws: DecodingError.self) { try decoded(Int8.self, hex("1880")) }
        #expect(throws: DecodingError.self) { try decoded(UInt8.self, hex("20")) }
        #expect(throws: DecodingError.self) { try decoded(Int64.self, hex("1b8000000000000000")) }
        #expect(throws: DecodingError.self) { try decoded(Int64.self, hex("3b8000000000000000")) }
        #expect(throws: DecodingError.self) { try decoded(Float.self, hex("fb7e37e43c8800759c")) }
        #expect(throws: DecodingError.self) {
            try decoded(Int128.self, hex("c25101" + String(repeating: "00", count: 16)))
        }
        #expect(throws: DecodingError.self) {
            try decoded(Int128.self, hex("c350" + String(repeating: "ff", count: 16)))
        }
    }

    @Test(arguments: RoundTripTests.coders)
    func `any beginning of good bytes is refused, and any changed byte does no harm`(_ coder: any MessageCoder) throws {
        var value = Everything()
        value.byName = [:]
        let bytes = try encoded(value, coder)
        for count in bytes.indices {
            #expect(throws: DecodingError.self) { try decoded(Everything.self, Array(bytes[..<count]), coder) }
        }
        var generator = SplitMix64(seed: 7)
        for index in bytes.indices {
            var spoilt = bytes
            spoilt[index] = .random(in: 0...255, using: &generator)
            _ = try? decoded(Everything.self, spoilt, coder)
        }
    }

    @Test func `values inside one another have a limit`() throws {
        for opening in [[0x81], [0x9F], [0xA1, 0x00], [0xC1]] as [[UInt8]] {
            let deep = Array(repeatElement(opening, count: 1_000_000 / opening.count).joined()) + [0]
            #expect(throws: DecodingError.self) { try decoded(Anything.self, deep) }
        }
        func nested(_ count: Int) -> [UInt8] { Array(repeating: 0x81, count: count) + [0] }
        #expect(throws: Never.self) { try decoded(Anything.self, nested(64)) }
        #expect(throws: DecodingError.self) { try decoded(Anything.self, nested(65)) }
        #expect(throws: Never.self) { try decoded(Anything.self, nested(3), CBORCoder(depthLimit: 3)) }
        #expect(throws: DecodingError.self) { try decoded(Anything.self, nested(4), CBORCoder(depthLimit: 3)) }
        #expect(throws: DecodingError.self) {
            try decoded(Anything.self, Array(repeating: 0x81, count: 1_000_000), CBORCoder(depthLimit: 512))
        }
    }

    @Test(arguments: [-1, 513, .max]) func `a depth that the stack may not have is refused`(_ limit: Int) {
        let error = PortError.invalidLimit(name: "depthLimit", value: limit, allowed: 0...512)
        #expect(throws: error) { try CBORCoder(depthLimit: limit) }
        #expect(throws: error) { try JSONCoder(depthLimit: limit) }
    }

    @Test func `JSON inside itself has a limit`() throws {
        for (opening, closing) in [("[", "]"), (#"{"a":"#, "}"), (#"{"\"]\\":["#, "]}")] {
            let deep = String(repeating: opening, count: 1_000_000 / opening.utf8.count)
            for text in [deep, deep + "0" + String(repeating: closing, count: deep.utf8.count / opening.utf8.count)] {
                for limit in [64, 512] {
                    #expect(throws: DecodingError.self) {
                        try decoded(Anything.self, Array(text.utf8), JSONCoder(depthLimit: limit))
                    }
                }
            }
        }
        #expect(throws: Never.self) {
            try decoded([String].self, Array(#"["[[[[[[","\"[[[["]"#.utf8), JSONCoder(depthLimit: 1))
        }
    }

    @Test(arguments: [true, false]) func `JSON in other encodings has the same limit`(_ hasMark: Bool) throws {
        func bytes<Unit: FixedWidthInteger>(_ units: [Unit]) -> [[UInt8]] {
            let units = hasMark ? [0xFEFF] + units : units
            return [
                units.flatMap { unit in withUnsafeBytes(of: unit.littleEndian) { Array($0) } },
                units.flatMap { unit in withUnsafeBytes(of: unit.bigEndian) { Array($0) } },
            ]
        }
        func encodings(_ text: String) -> [[UInt8]] {
            bytes(Array(text.utf16)) + bytes(text.unicodeScalars.map(\.value))
                + [(hasMark ? [0xEF, 0xBB, 0xBF] : []) + Array(text.utf8)]
        }
        // U+2222 and U+5B5B have bytes of a quote and of brackets.
        for bytes in encodings("[[\"\u{2222}\u{5B5B}é👍\",\"]\"]]") {
            #expect(try decoded([[String]].self, bytes, JSONCoder(depthLimit: 2)) == [["\u{2222}\u{5B5B}é👍", "]"]])
            #expect(throws: DecodingError.self) { try decoded([[String]].self, bytes, JSONCoder(depthLimit: 1)) }
        }
        for deep in encodings("[\"\u{2222}\"," + String(repeating: "[", count: 100_000)) {
            #expect(throws: DecodingError.self) { try decoded(Anything.self, deep, JSONCoder()) }
            #expect(throws: DecodingError.self) { try decoded(Anything.self, deep + [0], JSONCoder()) }
        }
    }

    @Test(arguments: RoundTripTests.coders)
    func `a value that is too deep cannot be encoded, and comes back before`(_ coder: any MessageCoder) throws {
        var tree = Choice.none
        // A map for the case, and another for its value.
        for _ in 0..<31 { tree = .more(tree) }
        #expect(try roundTrip(tree, coder) == tree)
        for _ in 0..<2 { tree = .more(tree) }
        if coder is CBORCoder {
            #expect(throws: EncodingError.self) { try encoded(tree, coder) }
        } else {
            #expect(throws: DecodingError.self) { try roundTrip(tree, coder) }
        }
    }

    @Test(.timeLimit(.minutes(10))) func `many keys cost no more than their bytes`() throws {
        struct Keys: Codable {
            var values: [Int]

            struct Key: CodingKey {
                var stringValue: String
                var intValue: Int? { nil }
                init(stringValue: String) { self.stringValue = stringValue }
                init?(intValue: Int) { nil }
            }

            /// Asks for the keys from the last to the first.
            init(from decoder: any Decoder) throws {
                let container = try decoder.container(keyedBy: Key.self)
                values = try container.allKeys.reversed().map { try container.decode(Int.self, forKey: $0) }
            }
        }
        let many = Dictionary(uniqueKeysWithValues: (0..<30_000).map { ("\($0)", $0) })
        let bytes = try encoded(many)
        #expect(try decoded(Keys.self, bytes).values.sorted() == Array(0..<30_000))
        #expect(try decoded([String: Int].self, bytes) == many)
    }

    @Test(.timeLimit(.minutes(10))) func `absent keys cost no more than the bytes`() throws {
        struct Node: Decodable {
            var a, b, c, d, e, f, g, h, i, j: Int?
            var child: [Node]?
        }
        // 30 maps inside one another, around 50,000 items.
        let key: [UInt8] = [0x65] + "child".utf8
        var bytes: [UInt8] = [0xA1, 0x61, 0x78, 0x9F] + Array(repeating: 0, count: 50_000) + [0xFF]
        for _ in 0..<30 { bytes = [0xA1] + key + [0x81] + bytes }
        #expect(throws: Never.self) { try decoded(Node.self, bytes) }
    }

    @Test(.timeLimit(.minutes(10))) func `many errors that a value catches cost no more than the bytes`() throws {
        struct Lenient: Decodable {
            init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                if (try? container.decode(Int.self)) == nil { _ = try? container.decode([Int].self) }
            }
        }
        #expect(try decoded([Lenient].self, [0x9F] + Array(repeating: 0x60, count: 20_000) + [0xFF]).count == 20_000)
    }
}

/// Takes all that is well-formed.
struct Anything: Decodable {
    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let many = try? container.decode([Anything].self) { _ = many }
    }
}
