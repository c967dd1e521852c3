import Testing
import TypedPorts

/// CBOR as RFC 8949 and other languages' encoders write it.
@Suite struct CBORCoderTests {
    // MARK: The standard's examples

    @Test(
        arguments: [
            (0, "00"), (1, "01"), (10, "0a"), (23, "17"), (24, "1818"), (25, "1819"), (100, "1864"), (1000, "1903e8"),
            (1_000_000, "1a000f4240"), (1_000_000_000_000, "1b000000e8d4a51000"),
            (18_446_744_073_709_551_615, "1bffffffffffffffff"), (18_446_744_073_709_551_616, "c249010000000000000000"),
            (-18_446_744_073_709_551_616, "3bffffffffffffffff"),
            (-18_446_744_073_709_551_617, "c349010000000000000000"),
            (-1, "20"), (-10, "29"), (-100, "3863"), (-1000, "3903e7"),
        ] as [(Int128, String)])
    func `integers are those of the standard`(_ number: Int128, _ item: String) throws {
        #expect(try decoded(Int128.self, hex(item)) == number)
        #expect(try encoded(number) == hex(item))
        if let number = Int64(exactly: number) { #expect(try encoded(number) == hex(item)) }
        if let number = UInt64(exactly: number) { #expect(try encoded(number) == hex(item)) }
    }

    @Test(
        arguments: [
            (0.0, "f90000"), (-0.0, "f98000"), (1.0, "f93c00"), (1.1, "fb3ff199999999999a"), (1.5, "f93e00"),
            (65504.0, "f97bff"), (100000.0, "fa47c35000"), (3.4028234663852886e+38, "fa7f7fffff"),
            (1.0e+300, "fb7e37e43c8800759c"), (5.960464477539063e-8, "f90001"), (0.00006103515625, "f90400"),
            (-4.0, "f9c400"), (-4.1, "fbc010666666666666"), (.infinity, "f97c00"), (-.infinity, "f9fc00"),
            (.infinity, "fa7f800000"), (.infinity, "fb7ff0000000000000"), (7, "07"), (-8, "27"),
        ] as [(Double, String)])
    func `floating numbers of all widths are read`(_ number: Double, _ item: String) throws {
        let double = try decoded(Double.self, hex(item))
        #expect(double.bitPattern == number.bitPattern)
        if Float(number).isFinite == number.isFinite { #expect(try decoded(Float.self, hex(item)) == Float(number)) }
    }

    @Test(arguments: ["f97e00", "fa7fc00000", "fb7ff8000000000000"])
    func `what is no number is read`(_ item: String) throws {
        #expect(try decoded(Double.self, hex(item)).isNaN)
        #expect(try decoded(Float.self, hex(item)).isNaN)
    }

    @Test func `floating numbers keep the width of their type`() throws {
        #expect(try encoded(1.5) == hex("fb3ff8000000000000"))
        #expect(try encoded(Float(1.5)) == hex("fa3fc00000"))
        #expect(try encoded(Float16(1.5)) == hex("f93e00"))
    }

    @Test(
        arguments: [
            ("", "60"), ("a", "6161"), ("IETF", "6449455446"), ("\"\\", "62225c"), ("ü", "62c3bc"), ("水", "63e6b0b4"),
            ("𐅑", "64f0908591"),
        ])
    func `texts are those of the standard`(_ text: String, _ item: String) throws {
        #expect(try decoded(String.self, hex(item)) == text)
        #expect(try encoded(text) == hex(item))
    }

    @Test func `containers are those of the standard`() throws {
        #expect(try encoded([1, 2, 3]) == hex("83010203"))
        #expect(try encoded([[1], [2, 3], [4, 5]]) == hex("8381018202038204 05"))
        #expect(try encoded(["a": 1]) == hex("a1616101"))
        #expect(try encoded([UInt8]([1, 2, 3, 4])) == hex("4401020304"))
        #expect(try encoded([true, false, nil]) == hex("83f5f4f6"))
        let many = Array(1...25)
        let definite = hex("98190102030405060708090a0b0c0d0e0f101112131415161718181819")
        let indefinite = hex("9f0102030405060708090a0b0c0d0e0f101112131415161718181819ff")
        #expect(try decoded([Int].self, definite) == many)
        #expect(try decoded([Int].self, indefinite) == many)
        // The length is not known when the first element is written.
        #expect(try encoded(many.map { Int128($0) }) == indefinite)
    }

    // MARK: Other encoders

    @Test func `indefinite lengths are read`() throws {
        #expect(try decoded([UInt8].self, hex("5f42010243030405ff")) == [1, 2, 3, 4, 5])
        #expect(try decoded(String.self, hex("7f657374726561646d696e67ff")) == "streaming")
        #expect(try decoded([Int].self, hex("9fff")) == [])
        #expect(try decoded([[Int]].self, hex("9f81019f0203ff80ff")) == [[1], [2, 3], []])
        #expect(try decoded([String: Int].self, hex("bf616101616202ff")) == ["a": 1, "b": 2])
        #expect(try decoded([String: Int].self, hex("bf7f6161ff01ff")) == ["a": 1])
    }

    @Test func `tags are skipped`() throws {
        #expect(try decoded(String.self, hex("c074323031332d30332d32315432303a30343a30305a")) == "2013-03-21T20:04:00Z")
        #expect(try decoded([Int].self, hex("d9d9f78201c102")) == [1, 2])
        #expect(
            try decoded(Person.self, hex("d9d9f7a3c16269640a646e616d65c0616e6576616c7565c1f93e00"))
                == Person(id: 10, name: "n", value: 1.5))
    }

    @Test func `keys come in any order, and unknown ones are skipped`() throws {
        let keys = [
            "626964" + "07", "646e616d65" + "6161", "6576616c7565" + "f93c00", "6178" + "9f83010203a16161bfffff",
            "01" + "02", "8101" + "f6",
        ]
        for first in keys.indices {
            for step in [1, 5] {
                let order = keys.indices.map { keys[(first + step * $0) % keys.count] }
                #expect(try decoded(Person.self, hex("a6" + order.joined())) == Person(id: 7, name: "a", value: 1))
                #expect(
                    try decoded(Person.self, hex("bf" + order.joined() + "ff")) == Person(id: 7, name: "a", value: 1))
            }
        }
    }

    @Test func `a key may be an integer`() throws {
        struct Numbered: Codable, Equatable {
            var first: Int
            var second: String

            enum CodingKeys: Int, CodingKey { case first = 1, second = -2 }
        }
        #expect(try decoded(Numbered.self, hex("a2216162010a")) == Numbered(first: 10, second: "b"))
        #expect(try decoded([Int: Int].self, hex("a201022003")) == [1: 2, -1: 3])
    }

    @Test func `of a key that comes twice, the first counts`() throws {
        #expect(try decoded([String: Int].self, hex("a4616101616202616103616204")) == ["a": 1, "b": 2])
        #expect(
            try decoded(Person.self, hex("a5 646e616d656161 646e616d656162 626964 01 6576616c756502 626964 02"))
                == Person(id: 1, name: "a", value: 2))
        // The type asks for the id first, which lies between the two.
        #expect(
            try decoded(Person.self, hex("a4 646e616d656161 626964 01 646e616d656162 6576616c756502"))
                == Person(id: 1, name: "a", value: 2))
    }

    @Test func `numbers change their kind if they stay the same`() throws {
        #expect(try decoded(Int.self, hex("fb4008000000000000")) == 3)
        #expect(throws: DecodingError.self) { try decoded(Int.self, hex("f93e00")) }
        #expect(throws: DecodingError.self) { try decoded(Int.self, hex("f97e00")) }
        #expect(throws: DecodingError.self) { try decoded(Double.self, hex("1bffffffffffffffff")) }
        #expect(try decoded(Float.self, hex("1a01000000")) == 16_777_216)
        #expect(try decoded(Float16.self, hex("3907ff")) == -2048)
        for item in ["1a01000001", "3a01000000"] {
            #expect(throws: DecodingError.self) { try decoded(Float.self, hex(item)) }
        }
        for item in ["190801", "390800", "1a00010000"] {
            #expect(throws: DecodingError.self) { try decoded(Float16.self, hex(item)) }
        }
    }

    @Test func `bytes may be an array, and an array of bytes may be bytes`() throws {
        #expect(try decoded([UInt8].self, hex("83010218ff")) == [1, 2, 255])
        #expect(try decoded(ContiguousArray<UInt8>.self, hex("43010203")) == [1, 2, 3])
        #expect(throws: DecodingError.self) { try decoded([Int].self, hex("43010203")) }
    }
}

/// The bytes of hexadecimal digits.
func hex(_ digits: String) -> [UInt8] {
    let digits = digits.compactMap(\.hexDigitValue)
    return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
}
