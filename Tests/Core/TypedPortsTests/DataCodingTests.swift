import Foundation
import FoundationCoding
import TestSupport
import Testing
import TypedPorts

/// Foundation's `Data` between programs with FoundationCoding and without.
@Suite struct DataCodingTests {
    /// `Data` as a program without FoundationCoding codes it: by its own functions alone.
    private struct PlainData: Codable, Equatable {
        var data: Data

        init(_ data: Data) { self.data = data }

        init(from decoder: any Decoder) throws { data = try Data(from: decoder) }

        func encode(to encoder: any Encoder) throws { try data.encode(to: encoder) }
    }

    private struct Picture<Bytes: Codable & Equatable>: Codable, Equatable {
        var name: String
        var pixels: Bytes
        var thumbnails: [Bytes]
        var mask: Bytes?
    }

    @Test(arguments: [0, 1, 23, 24, 255, 1 << 20])
    func `programs with and without FoundationCoding read each other's Data`(count: Int) throws {
        let data = Data((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        let bytes = try encoded(data)
        #expect(try encoded(PlainData(data)) == bytes)
        #expect(try decoded(Data.self, bytes) == data)
        #expect(try decoded(PlainData.self, bytes).data == data)

        let picture = Picture(name: "a", pixels: data, thumbnails: [data, Data(), data.dropFirst()], mask: data)
        let plain = Picture(
            name: "a", pixels: PlainData(data), thumbnails: picture.thumbnails.map(PlainData.init),
            mask: PlainData(data))
        let value = try encoded(picture)
        #expect(try encoded(plain) == value)
        #expect(try decoded(Picture<Data>.self, value) == picture)
        #expect(try decoded(Picture<PlainData>.self, value) == plain)
    }

    @Test(arguments: [
        // A byte string: whole, in chunks, and behind tags.
        "43010280", "5f 420102 4180 ff", "c143010280", "d84043010280", "d84443010280",
        // An array of integers, with a length and without, and of floating numbers.
        "8301021880", "9f01021880ff", "83 01 02 190080", "83f93c00f94000f95800",
        // Typed arrays.
        "d84146000100020080", "d84546010002008000", "d8464c010000000200000080000000",
        "d84d46010002008000", "d84e4c010000000200000080000000", "d85446003c00400058",
    ])
    func `Data is read from all forms of small integers, with FoundationCoding and without`(item: String) throws {
        #expect(try decoded(Data.self, hex(item)) == Data([1, 2, 128]))
        #expect(try decoded(PlainData.self, hex(item)).data == Data([1, 2, 128]))
        #expect(try decoded([Data].self, hex("82 \(item) \(item)")) == [Data([1, 2, 128]), Data([1, 2, 128])])
    }

    @Test(arguments: [
        "63616263", "a0", "f6", "01", "5bffffffffffffffff", "43 0102", "82 01 190100", "82 01 20", "82 01 6161",
        "82 01 f93e00", "d845 42 0001", "d848 42 01ff", "d845 43 010000",
    ])
    func `other items are refused, with FoundationCoding and without`(item: String) {
        #expect(throws: DecodingError.self) { try decoded(Data.self, hex(item)) }
        #expect(throws: DecodingError.self) { try decoded(PlainData.self, hex(item)) }
    }
}
