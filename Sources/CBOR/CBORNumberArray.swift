/// An array of numbers that is one byte string (RFC 8746). A tag says the kind, the width and the byte order of the numbers.
struct CBORNumberArray {
    private enum Kind { case unsigned, signed, floating }

    private let kind: Kind
    /// The bytes of a number: 1, 2, 4 or 8.
    private let width: Int
    private let isBigEndian: Bool

    /// Nil for a tag of something else. An array of bytes is one, and so are numbers of 128 bits.
    init?(tag: UInt64) {
        switch tag {
        case 65...67: self.init(.unsigned, 1 << (tag - 64), isBigEndian: true)
        case 69...71: self.init(.unsigned, 1 << (tag - 68))
        case 72: self.init(.signed, 1)
        case 73...75: self.init(.signed, 1 << (tag - 72), isBigEndian: true)
        case 77...79: self.init(.signed, 1 << (tag - 76))
        case 80...82: self.init(.floating, 1 << (tag - 79), isBigEndian: true)
        case 84...86: self.init(.floating, 1 << (tag - 83))
        default: return nil
        }
    }

    private init(_ kind: Kind, _ width: Int, isBigEndian: Bool = false) {
        (self.kind, self.width, self.isBigEndian) = (kind, width, isBigEndian)
    }

    /// The numbers as an array of items, one for each; nil when the payload ends inside a number.
    func items(of payload: UnsafeRawBufferPointer) -> [UInt8]? {
        guard payload.count % width == 0 else { return nil }
        var items: [UInt8] = []
        items.reserveCapacity(payload.count + payload.count / width + 9)
        items.write(.array, UInt64(payload.count / width))
        for offset in stride(from: 0, to: payload.count, by: width) {
            let bits = bits(of: payload, at: offset)
            switch kind {
            case .unsigned: items.write(.unsigned, bits)
            case .signed:
                let unused = 64 - 8 * width
                let number = Int64(bitPattern: bits << unused) >> unused
                items.write(number < 0 ? .negative : .unsigned, UInt64(number < 0 ? ~number : number))
            case .floating: items.write(floating: bits, width: width)
            }
        }
        return items
    }

    private func bits(of payload: UnsafeRawBufferPointer, at offset: Int) -> UInt64 {
        (0..<width).reduce(0) { bits, index in
            bits << 8 | UInt64(payload[offset + (isBigEndian ? index : width - 1 - index)])
        }
    }
}

/// A number whose arrays are encoded as one byte string: the array's memory on a little-endian machine.
protocol CBORArrayNumber: Decodable, BitwiseCopyable {
    static var arrayTag: UInt64 { get }
}

extension UInt16: CBORArrayNumber { static var arrayTag: UInt64 { 69 } }
extension UInt32: CBORArrayNumber { static var arrayTag: UInt64 { 70 } }
extension UInt64: CBORArrayNumber { static var arrayTag: UInt64 { 71 } }
extension UInt: CBORArrayNumber { static var arrayTag: UInt64 { 71 } }
extension Int8: CBORArrayNumber { static var arrayTag: UInt64 { 72 } }
extension Int16: CBORArrayNumber { static var arrayTag: UInt64 { 77 } }
extension Int32: CBORArrayNumber { static var arrayTag: UInt64 { 78 } }
extension Int64: CBORArrayNumber { static var arrayTag: UInt64 { 79 } }
extension Int: CBORArrayNumber { static var arrayTag: UInt64 { 79 } }
extension Float16: CBORArrayNumber { static var arrayTag: UInt64 { 84 } }
extension Float: CBORArrayNumber { static var arrayTag: UInt64 { 85 } }
extension Double: CBORArrayNumber { static var arrayTag: UInt64 { 86 } }

/// Finds the type of the numbers in a type of arrays.
enum CBORArrays {
    /// Calls the closure with the type of an array's numbers; nil for another type than an array of such numbers.
    @inline(__always)
    static func numbers<Value, Result>(of type: Value.Type, _ body: (any CBORArrayNumber.Type) throws -> Result?)
        rethrows
        -> Result?
    {
        // Most values are larger or smaller than an array, which is one pointer.
        guard MemoryLayout<Value>.size == MemoryLayout<[Int]>.size else { return nil }
        if type == [Double].self { return try body(Double.self) }
        if type == [Float].self { return try body(Float.self) }
        if type == [Int].self { return try body(Int.self) }
        if type == [Int32].self { return try body(Int32.self) }
        if type == [Int64].self { return try body(Int64.self) }
        if type == [UInt16].self { return try body(UInt16.self) }
        if type == [Int16].self { return try body(Int16.self) }
        if type == [UInt32].self { return try body(UInt32.self) }
        if type == [UInt64].self { return try body(UInt64.self) }
        if type == [UInt].self { return try body(UInt.self) }
        if type == [Int8].self { return try body(Int8.self) }
        if type == [Float16].self { return try body(Float16.self) }
        return nil
    }
}

/// A value that is bytes, such as Foundation's `Data`. It is decoded from a byte string at once, not byte by byte.
package protocol CBORByteString {
    init(byteString: UnsafeRawBufferPointer)
}
