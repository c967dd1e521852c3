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

/// A number whose arrays are encoded as one byte string: the array's memory on a little-endian machine, or narrower integers
/// if all fit.
protocol CBORArrayNumber: Decodable, BitwiseCopyable {
    static var arrayTag: UInt64 { get }
    /// The numbers in the narrowest form; nil when they need all their bytes.
    static func narrowed(_ numbers: UnsafeBufferPointer<Self>) -> (tag: UInt64, payload: [UInt8])?
    /// The numbers of a narrower form; nil for another form, and when one does not fit.
    static func widened(_ payload: UnsafeRawBufferPointer, tag: UInt64) -> [Self]?
}

extension CBORArrayNumber {
    static func narrowed(_ numbers: UnsafeBufferPointer<Self>) -> (tag: UInt64, payload: [UInt8])? { nil }
    static func widened(_ payload: UnsafeRawBufferPointer, tag: UInt64) -> [Self]? { nil }
}

// For each type of integers, the compiler makes loops of their own of these.
extension CBORArrayNumber where Self: FixedWidthInteger {
    static func narrowed(_ numbers: UnsafeBufferPointer<Self>) -> (tag: UInt64, payload: [UInt8])? {
        var (bits, width) = (0 as Self, 0)
        // Most arrays that need all bytes need them soon.
        for start in stride(from: 0, to: numbers.count, by: 1024) {
            for number in numbers[start..<Swift.min(start + 1024, numbers.count)] {
                // Negative numbers count by their complements.
                bits |= Self.isSigned ? number ^ (number >> (Self.bitWidth - 1)) : number
            }
            width = Self.bitWidth - bits.leadingZeroBitCount
            if width > Self.bitWidth / 2 { return nil }
        }
        switch width {
        case _ where width < 8 && Self.bitWidth > 8: return narrowed(numbers, Int8.self)
        case _ where width < 16 && Self.isSigned && Self.bitWidth > 16: return narrowed(numbers, Int16.self)
        case _ where width <= 16 && !Self.isSigned && Self.bitWidth > 16: return narrowed(numbers, UInt16.self)
        case _ where width < 32 && Self.isSigned && Self.bitWidth > 32: return narrowed(numbers, Int32.self)
        case _ where width <= 32 && !Self.isSigned && Self.bitWidth > 32: return narrowed(numbers, UInt32.self)
        default: return nil
        }
    }

    private static func narrowed<Narrow: FixedWidthInteger & CBORArrayNumber>(
        _ numbers: UnsafeBufferPointer<Self>, _: Narrow.Type
    ) -> (tag: UInt64, payload: [UInt8]) {
        let size = numbers.count * MemoryLayout<Narrow>.size
        let payload = [UInt8](unsafeUninitializedCapacity: size) { bytes, count in
            for (index, number) in numbers.enumerated() {
                UnsafeMutableRawBufferPointer(bytes).storeBytes(
                    of: Narrow(truncatingIfNeeded: number), toByteOffset: index * MemoryLayout<Narrow>.size,
                    as: Narrow.self)
            }
            count = size
        }
        return (Narrow.arrayTag, payload)
    }

    static func widened(_ payload: UnsafeRawBufferPointer, tag: UInt64) -> [Self]? {
        switch tag {
        case Int8.arrayTag: widened(payload, Int8.self)
        case Int16.arrayTag: widened(payload, Int16.self)
        case UInt16.arrayTag: widened(payload, UInt16.self)
        case Int32.arrayTag: widened(payload, Int32.self)
        case UInt32.arrayTag: widened(payload, UInt32.self)
        default: nil
        }
    }

    private static func widened<Narrow: FixedWidthInteger & BitwiseCopyable>(
        _ payload: UnsafeRawBufferPointer, _: Narrow.Type
    ) -> [Self]? {
        guard payload.count % MemoryLayout<Narrow>.size == 0 else { return nil }
        let count = payload.count / MemoryLayout<Narrow>.size
        let numbers = [Self](unsafeUninitializedCapacity: count) { numbers, initialized in
            while initialized < count {
                let number = payload.loadUnaligned(
                    fromByteOffset: initialized * MemoryLayout<Narrow>.size, as: Narrow.self)
                guard let fitting = Self(exactly: number) else { return }
                numbers.initializeElement(at: initialized, to: fitting)
                initialized += 1
            }
        }
        return numbers.count == count ? numbers : nil
    }
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
