import TestSupport
import Testing
import TypedPorts

/// Arrays of numbers as RFC 8746 writes them.
@Suite struct NumberArrayTests {
    private func expectSame<Number: Codable & Equatable>(_ numbers: [Number], tag: String) throws {
        let bytes = try encoded(numbers)
        // The tag, and a byte string with a length of one byte or two.
        #expect(bytes.starts(with: hex("d8\(tag)")), "\(Number.self)")
        #expect(bytes.count <= numbers.count * MemoryLayout<Number>.size + 5)
        #expect(try decoded([Number].self, bytes) == numbers)
        #expect(try decoded(ContiguousArray<Number>.self, bytes) == ContiguousArray(numbers))
        // Few numbers are items.
        let few = try encoded(Array(numbers.prefix(23)))
        #expect(few.first == 0x97)
        #expect(try decoded([Number].self, few) == Array(numbers.prefix(23)))
    }

    private func integers<Number: FixedWidthInteger>(_: Number.Type) -> [Number] {
        [.min, .max, 0, 1, .max / 2, .min / 2] + (0..<60).map { Number(truncatingIfNeeded: $0 &* 1_000_003) }
    }

    @Test func `many numbers are one byte string, whose tag says what they are`() throws {
        try expectSame(integers(UInt16.self), tag: "45")
        try expectSame(integers(UInt32.self), tag: "46")
        try expectSame(integers(UInt64.self), tag: "47")
        try expectSame(integers(UInt.self), tag: "47")
        try expectSame(integers(Int8.self), tag: "48")
        try expectSame(integers(Int16.self), tag: "4d")
        try expectSame(integers(Int32.self), tag: "4e")
        try expectSame(integers(Int64.self), tag: "4f")
        try expectSame(integers(Int.self), tag: "4f")
        let numbers = [0, -0.0, 1.5, -2, .infinity, 65504] + (0..<40).map { Double($0) / 8 }
        try expectSame(numbers.map { Float16($0) }, tag: "54")
        try expectSame(numbers.map { Float($0) }, tag: "55")
        try expectSame(numbers + [.pi, .greatestFiniteMagnitude, .leastNonzeroMagnitude], tag: "56")
    }

    private func expectNarrow<Number: FixedWidthInteger & Codable>(
        _ numbers: [Number], tag: String, width: Int
    ) throws {
        let all = numbers + [Number](repeating: 1, count: 40)
        let bytes = try encoded(all)
        #expect(bytes.starts(with: hex("d8\(tag)")), "\(numbers)")
        #expect(bytes.count <= all.count * width + 5)
        #expect(try decoded([Number].self, bytes) == all)
        #expect(try decoded(ContiguousArray<Number>.self, bytes) == ContiguousArray(all))
    }

    @Test func `integers take as few bytes as the largest needs`() throws {
        try expectNarrow([127, -128], tag: "48", width: 1)
        try expectNarrow([128], tag: "4d", width: 2)
        try expectNarrow([-129], tag: "4d", width: 2)
        try expectNarrow([32_767, -32_768], tag: "4d", width: 2)
        try expectNarrow([32_768], tag: "4e", width: 4)
        try expectNarrow([Int(Int32.max), Int(Int32.min)], tag: "4e", width: 4)
        try expectNarrow([Int(Int32.max) + 1], tag: "4f", width: 8)
        try expectNarrow([Int(Int32.min) - 1], tag: "4f", width: 8)
        try expectNarrow([127] as [UInt], tag: "48", width: 1)
        try expectNarrow([128] as [UInt], tag: "45", width: 2)
        try expectNarrow([65_535] as [UInt64], tag: "45", width: 2)
        try expectNarrow([65_536] as [UInt64], tag: "46", width: 4)
        try expectNarrow([4_294_967_295] as [UInt], tag: "46", width: 4)
        try expectNarrow([4_294_967_296] as [UInt], tag: "47", width: 8)
        try expectNarrow([100] as [UInt16], tag: "48", width: 1)
        try expectNarrow([-1] as [Int16], tag: "48", width: 1)
        try expectNarrow([-200] as [Int32], tag: "4d", width: 2)
        try expectNarrow([60_000] as [UInt32], tag: "45", width: 2)
        try expectNarrow([-3] as [Int8], tag: "48", width: 1)
    }

    @Test func `numbers that are none stay none`() throws {
        let numbers = [Double](repeating: .nan, count: 30)
        let found = try decoded([Double].self, encoded(numbers))
        #expect(found.map(\.bitPattern) == numbers.map(\.bitPattern))
        #expect(try decoded([Float].self, encoded(numbers)).allSatisfy(\.isNaN))
    }

    @Test(arguments: [
        ("d84142 0102", [258]), ("d84244 00010203", [66051]), ("d84348 0000000000000100", [256]),
        ("d84542 0102", [513]), ("d84644 01020300", [197_121]), ("d84748 0100000000000000", [1]),
        ("d84843 01ff80", [1, -1, -128]), ("d84942 fffe", [-2]), ("d84a44 fffffffe", [-2]),
        ("d84b48 fffffffffffffffe", [-2]), ("d84d42 feff", [-2]), ("d84e44 feffffff", [-2]),
        ("d84f48 feffffffffffffff", [-2]), ("d85042 c000", [-2]), ("d85144 c0000000", [-2]),
        ("d85248 c000000000000000", [-2]), ("d85442 00c0", [-2]), ("d85544 000000c0", [-2]),
        ("d85648 00000000000000c0", [-2]), ("d84840", []), ("d8485f 4101 42 0203 ff", [1, 2, 3]),
        ("d9d9f7 d84e44 feffffff", [-2]),
    ])
    func `all kinds are read, in both byte orders, as any numbers that they fit in`(item: String, numbers: [Int]) throws
    {
        #expect(try decoded([Int].self, hex(item)) == numbers)
        #expect(try decoded([Int128].self, hex(item)) == numbers.map { Int128($0) })
        #expect(try decoded([Double].self, hex(item)) == numbers.map { Double($0) })
        #expect(try decoded([Float].self, hex(item)) == numbers.map { Float($0) })
        #expect(try decoded(Set<Int>.self, hex(item)) == Set(numbers))
        #expect(try decoded([[Int]].self, hex("82 \(item) \(item)")) == [numbers, numbers])
    }

    @Test func `a type that decodes its elements by itself finds them`() throws {
        struct Sum: Decodable, Equatable {
            var sum = 0.0
            var count = 0

            init(sum: Double, count: Int) { (self.sum, self.count) = (sum, count) }

            init(from decoder: any Decoder) throws {
                var elements = try decoder.unkeyedContainer()
                while !elements.isAtEnd {
                    count += 1
                    sum += try elements.decode(Double.self)
                }
                #expect(elements.count == count)
            }
        }
        #expect(try decoded(Sum.self, encoded((1...100).map { Double($0) })) == Sum(sum: 5050, count: 100))
        #expect(try decoded([Sum].self, encoded([[Int32](repeating: 2, count: 50)])) == [Sum(sum: 100, count: 50)])
    }

    @Test(arguments: [
        "d84e43 feffff", "d84e41 fe", "d85647 00000000000000", "d84e", "d84e44 feff", "d84e 5bffffffffffffffff",
        "d84e 5f 44feffffff", "d84e 83010203ff", "d84e 60", "d853 50 00000000000000000000000000000000",
    ])
    func `arrays of numbers that are not whole are refused`(item: String) {
        for type in [[Int32].self, [Int].self, [Double].self, Set<Int>.self] as [any Decodable.Type] {
            #expect(throws: DecodingError.self) { try decoded(type, hex(item)) }
        }
    }

    @Test func `a number that does not fit is refused, with its place`() throws {
        let numbers = [Int](repeating: 1, count: 40) + [1 << 40]
        #expect(throws: DecodingError.self) { try decoded([Int32].self, encoded(numbers)) }
        #expect(throws: DecodingError.self) { try decoded([UInt].self, encoded(numbers.map { -$0 })) }
        #expect(throws: DecodingError.self) { try decoded([Bool].self, encoded(numbers)) }
        #expect(throws: DecodingError.self) { try decoded([UInt8].self, encoded(numbers)) }
        #expect(try decoded([UInt8].self, encoded(numbers.dropLast())) == [UInt8](repeating: 1, count: 40))
        do {
            _ = try decoded([Int32].self, encoded(numbers))
        } catch DecodingError.dataCorrupted(let context) {
            #expect(context.codingPath.last?.intValue == 40)
        }
        do {
            _ = try decoded([String: [Int32]].self, encoded(["samples": numbers]))
            Issue.record("the number fits")
        } catch DecodingError.dataCorrupted(let context) {
            #expect(context.codingPath.map(\.stringValue) == ["samples", "Index 40"])
        }
    }

    @Test func `a container that outlives its value reads no more numbers`() throws {
        final class Kept { var container: (any UnkeyedDecodingContainer)? }
        struct Keeper: Decodable {
            static let key = CodingUserInfoKey(rawValue: "kept")
            nonisolated(unsafe) static let kept = Kept()  // Sound: of this test alone.
            init(from decoder: any Decoder) throws {
                Self.kept.container = try decoder.unkeyedContainer()
                #expect(try Self.kept.container?.decode(Int.self) == 1)
            }
        }
        _ = try decoded(Keeper.self, encoded(Array(1...100)))
        #expect(throws: DecodingError.self) { try Keeper.kept.container?.decode(Int.self) }
        Keeper.kept.container = nil
    }

    @Test func `errors in many arrays of numbers share one budget`() throws {
        struct Guess: Decodable {
            static let depths = Shared<[Int]>([])
            init(from decoder: any Decoder) throws {
                if var elements = try? decoder.unkeyedContainer() {
                    while !elements.isAtEnd { _ = try elements.decode(Guess.self) }
                } else {
                    let depth = decoder.codingPath.count
                    Self.depths.withLock { $0.append(depth) }
                }
            }
        }
        let arrays = [[Int8]](repeating: [Int8](repeating: 1, count: 1000), count: 20)
        _ = try decoded(Guess.self, encoded(arrays))
        let depths = Guess.depths.withLock { $0 }
        // After too many questions for a path the answer is empty, in each of the arrays.
        #expect(depths.count == 20_000 && depths.first == 2 && depths.suffix(1000).allSatisfy { $0 == 0 })
    }

    @Test func `an array of numbers counts as one level`() throws {
        let numbers = Array(1...100)
        for limit in 0...2 {
            let coder = try CBORCoder(depthLimit: limit)
            func isCoded(_ value: some Codable & Equatable) -> Bool {
                guard let bytes = try? encoded(value, coder) else { return false }
                return (try? decoded(type(of: value), bytes, coder)) == value
            }
            #expect(isCoded(numbers) == (limit > 0))
            #expect(isCoded([numbers]) == (limit > 1))
            #expect(isCoded([Array(1...5)]) == (limit > 1))
        }
    }
}
