/// Writes single items at the end.
extension [UInt8] {
    /// Writes a value that is a single item, without its `encode(to:)`, which takes several times as long. False for
    /// another value.
    @inline(__always) mutating func write<Value: Encodable>(item value: Value) -> Bool {
        func item<Item>(_: Item.Type) -> Item { unsafeBitCast(value, to: Item.self) }
        func isWritten(_: Void) -> Bool { true }
        // In a generic function that the compiler specialises, all but one of these are gone. With `as?` in place of the
        // bit casts, a thousand structs of eight fields take 2.7 ms, not 1.1.
        if Value.self == String.self { return isWritten(write(text: item(String.self))) }
        if Value.self == Int.self { return isWritten(write(integer: item(Int.self))) }
        if Value.self == Bool.self { return isWritten(append(item(Bool.self) ? CBORByte.true : CBORByte.false)) }
        if Value.self == Double.self { return isWritten(write(CBORByte.double, item(Double.self).bitPattern)) }
        if Value.self == Float.self { return isWritten(write(CBORByte.float, item(Float.self).bitPattern)) }
        if Value.self == Float16.self { return isWritten(write(CBORByte.half, item(Float16.self).bitPattern)) }
        if Value.self == Int32.self { return isWritten(write(integer: item(Int32.self))) }
        if Value.self == Int64.self { return isWritten(write(integer: item(Int64.self))) }
        if Value.self == UInt8.self { return isWritten(write(integer: item(UInt8.self))) }
        if Value.self == UInt32.self { return isWritten(write(integer: item(UInt32.self))) }
        if Value.self == UInt64.self { return isWritten(write(integer: item(UInt64.self))) }
        if Value.self == UInt.self { return isWritten(write(integer: item(UInt.self))) }
        if Value.self == UInt16.self { return isWritten(write(integer: item(UInt16.self))) }
        if Value.self == Int16.self { return isWritten(write(integer: item(Int16.self))) }
        if Value.self == Int8.self { return isWritten(write(integer: item(Int8.self))) }
        if Value.self == Int128.self { return isWritten(write(integer: item(Int128.self))) }
        if Value.self == UInt128.self { return isWritten(write(integer: item(UInt128.self))) }
        if Value.self == [UInt8].self { return isWritten(write(byteString: item([UInt8].self))) }
        return false
    }

    /// Writes an array of many numbers as one byte string. False for another value, and for a few numbers, which are shorter
    /// one by one.
    mutating func write<Value: Encodable>(numbers value: Value) -> Bool {
        CBORArrays.numbers(of: Value.self) { type in write(numbers: value, of: type) } ?? false
    }

    private mutating func write<Value, Number: CBORArrayNumber>(numbers value: Value, of type: Number.Type) -> Bool {
        let numbers = unsafeBitCast(value, to: [Number].self)
        guard numbers.count > CBORByte.largestShort, 1.littleEndian == 1 else { return false }
        if let (tag, payload) = numbers.withUnsafeBufferPointer(Number.narrowed) {
            write(.tag, tag)
            write(byteString: payload)
        } else {
            write(.tag, Number.arrayTag)
            numbers.withUnsafeBytes { payload in
                write(.bytes, UInt64(payload.count))
                append(contentsOf: payload)
            }
        }
        return true
    }

    /// Writes the first item of a message's value, or the next one.
    @inline(__always) mutating func write<Value: Encodable>(wholeItem value: Value) -> Bool {
        if capacity == 0 { reserveCapacity(128) }
        return write(item: value)
    }

    @inline(__always) mutating func writeNull() { append(CBORByte.null) }

    mutating func write(text: String) {
        var text = text
        text.withUTF8 { text in
            write(.text, UInt64(text.count))
            append(contentsOf: text)
        }
    }

    mutating func write(byteString payload: [UInt8]) {
        write(.bytes, UInt64(payload.count))
        self += payload
    }

    @inline(__always) private mutating func write<Number: FixedWidthInteger>(integer: Number) {
        let isNegative = integer < 0
        let magnitude = isNegative ? ~integer : integer
        if Number.bitWidth <= 64 || magnitude <= UInt64.max {
            write(isNegative ? .negative : .unsigned, UInt64(truncatingIfNeeded: magnitude))
        } else {
            write(isNegative: isNegative, wide: UInt128(truncatingIfNeeded: magnitude))
        }
    }

    /// Writes a number of more than 64 bits: tag 2, or tag 3 for a negative one, and the bytes of the number.
    private mutating func write(isNegative: Bool, wide magnitude: UInt128) {
        write(.tag, isNegative ? 3 : 2)
        let zeros = magnitude.leadingZeroBitCount / 8
        write(.bytes, UInt64(16 - zeros))
        Swift.withUnsafeBytes(of: magnitude.bigEndian) { append(contentsOf: $0.dropFirst(zeros)) }
    }

    /// The head of an item, with its number in the shortest form.
    @inline(__always) mutating func write(_ major: CBORMajor, _ number: UInt64) {
        if number <= CBORByte.largestShort {
            append(major.byte(UInt8(truncatingIfNeeded: number)))
        } else {
            writeLong(major, number)
        }
    }

    private mutating func writeLong(_ major: CBORMajor, _ number: UInt64) {
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

    /// Writes a floating number of 2, 4 or 8 bytes.
    mutating func write(floating bits: UInt64, width: Int) {
        switch width {
        case 2: write(CBORByte.half, UInt16(truncatingIfNeeded: bits))
        case 4: write(CBORByte.float, UInt32(truncatingIfNeeded: bits))
        default: write(CBORByte.double, bits)
        }
    }

    @inline(__always) private mutating func write(_ byte: UInt8, _ number: some FixedWidthInteger) {
        append(byte)
        Swift.withUnsafeBytes(of: number.bigEndian) { append(contentsOf: $0) }
    }
}
