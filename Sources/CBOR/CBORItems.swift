/// Single items.
extension CBORWriter {
    /// Writes what has an item of its own, without the value's `encode(to:)`. Returns false for other values.
    @inline(__always) func writeDirectly<Value: Encodable>(_ value: Value) -> Bool {
        // In a generic function that the compiler specialises, all but one of these are gone.
        if Value.self == String.self {
            write(text: unsafeBitCast(value, to: String.self))
        } else if Value.self == Int.self {
            write(integer: unsafeBitCast(value, to: Int.self))
        } else if Value.self == Bool.self {
            bytes.append(unsafeBitCast(value, to: Bool.self) ? CBORByte.true : CBORByte.false)
        } else if Value.self == Double.self {
            write(CBORByte.double, unsafeBitCast(value, to: Double.self).bitPattern)
        } else if Value.self == Float.self {
            write(CBORByte.float, unsafeBitCast(value, to: Float.self).bitPattern)
        } else if Value.self == Float16.self {
            write(CBORByte.half, unsafeBitCast(value, to: Float16.self).bitPattern)
        } else if Value.self == Int32.self {
            write(integer: Int(unsafeBitCast(value, to: Int32.self)))
        } else if Value.self == Int64.self {
            write(integer: Int(unsafeBitCast(value, to: Int64.self)))
        } else if Value.self == UInt8.self {
            write(.unsigned, UInt64(unsafeBitCast(value, to: UInt8.self)))
        } else if Value.self == UInt32.self {
            write(.unsigned, UInt64(unsafeBitCast(value, to: UInt32.self)))
        } else if Value.self == UInt64.self {
            write(.unsigned, unsafeBitCast(value, to: UInt64.self))
        } else if Value.self == UInt.self {
            write(.unsigned, UInt64(unsafeBitCast(value, to: UInt.self)))
        } else if Value.self == UInt16.self {
            write(.unsigned, UInt64(unsafeBitCast(value, to: UInt16.self)))
        } else if Value.self == Int16.self {
            write(integer: Int(unsafeBitCast(value, to: Int16.self)))
        } else if Value.self == Int8.self {
            write(integer: Int(unsafeBitCast(value, to: Int8.self)))
        } else if Value.self == [UInt8].self {
            let payload = unsafeBitCast(value, to: [UInt8].self)
            write(.bytes, UInt64(payload.count))
            bytes += payload
        } else if Value.self == Int128.self {
            write(wide: unsafeBitCast(value, to: Int128.self))
        } else if Value.self == UInt128.self {
            write(wide: unsafeBitCast(value, to: UInt128.self))
        } else {
            return false
        }
        return true
    }

    @inline(__always) func writeNull() { bytes.append(CBORByte.null) }

    func write(text: String) {
        var text = text
        text.withUTF8 { text in
            write(.text, UInt64(text.count))
            bytes.append(contentsOf: text)
        }
    }

    @inline(__always) func write(integer: Int) {
        if integer >= 0 { write(.unsigned, UInt64(integer)) } else { write(.negative, UInt64(~integer)) }
    }

    /// The head of an item, with its number in the shortest form.
    @inline(__always) func write(_ major: CBORMajor, _ number: UInt64) {
        if number <= CBORByte.largestShort {
            bytes.append(major.byte(UInt8(truncatingIfNeeded: number)))
        } else {
            writeLong(major, number)
        }
    }

    private func writeLong(_ major: CBORMajor, _ number: UInt64) {
        if let number = UInt8(exactly: number) {
            write(major.byte(24), number)
        } else if let number = UInt16(exactly: number) {
            write(major.byte(25), number)
        } else if let number = UInt32(exactly: number) {
            write(major.byte(26), number)
        } else {
            write(major.byte(27), number)
        }
    }

    @inline(__always) private func write(_ byte: UInt8, _ number: some FixedWidthInteger) {
        bytes.append(byte)
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }

    /// A number that may need more than 64 bits: tag 2, or tag 3 for a negative one, and the bytes of the number.
    private func write<Number: FixedWidthInteger>(wide number: Number) {
        let isNegative = number < 0
        let magnitude = UInt128(truncatingIfNeeded: isNegative ? ~number : number)
        if let short = UInt64(exactly: magnitude) { return write(isNegative ? .negative : .unsigned, short) }
        write(.tag, isNegative ? 3 : 2)
        let zeros = magnitude.leadingZeroBitCount / 8
        write(.bytes, UInt64(16 - zeros))
        withUnsafeBytes(of: magnitude.bigEndian) { bytes.append(contentsOf: $0.dropFirst(zeros)) }
    }

    // MARK: Bytes in an array

    /// Writes bytes that are elements of an array: as a byte string in place of the array, if they are all of it.
    func writeBytes(_ elements: some Sequence<UInt8>, in id: Int) throws {
        guard current.id == id else { return try write(into: id) { try writeBytes(elements, in: id) } }
        guard current.kind == .array, current.count == 0 else {
            for element in elements { try writeElement(in: id) { write(.unsigned, UInt64(element)) } }
            return
        }
        let payload = Array(elements)
        bytes.removeLast()
        write(.bytes, UInt64(payload.count))
        bytes += payload
        (current.kind, current.count) = (.bytes, payload.count)
        depth -= 1
    }

    /// Turns the byte string of the innermost level into an array after all.
    func makeArray() {
        let payload = Array(bytes.suffix(current.count))
        bytes.removeLast(bytes.count - current.start)
        current.kind = .array
        depth += 1
        bytes.append(CBORMajor.array.byte(0))
        for byte in payload { write(.unsigned, UInt64(byte)) }
    }

    // MARK: Path

    /// The keys and indexes of the open levels, for an error.
    var path: [any CodingKey] {
        (outer + [current]).compactMap { level -> CBORKey? in
            guard level.count > 0 else { return nil }
            switch level.kind {
            case .array: return CBORKey(intValue: level.count - 1)
            case .map:
                let reader = CBORReader()
                let text = bytes.withUnsafeBytes { bytes in
                    reader.begin(bytes)
                    defer { reader.end() }
                    return try? reader.text(at: level.key)
                }
                return text.map { CBORKey(stringValue: $0) }
            default: return nil
            }
        }
    }
}
