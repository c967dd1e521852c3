/// Values of items.
extension CBORReader {
    /// Not through an optional value: a generic function that is not specialised would look its type up each time.
    @inline(__always)
    func decode<Value: Decodable>(_ type: Value.Type, at offset: Int) throws -> Value {
        func cast<Other>(_ value: Other) -> Value { unsafeBitCast(value, to: Value.self) }
        // In a generic function that the compiler specialises, all but one of these are gone.
        if Value.self == String.self { return cast(try string(at: offset)) }
        if Value.self == Int.self { return cast(try integer(Int.self, at: offset)) }
        if Value.self == Bool.self { return cast(try bool(at: offset)) }
        if Value.self == Double.self { return cast(try floating(Double.self, at: offset)) }
        if Value.self == Float.self { return cast(try floating(Float.self, at: offset)) }
        if Value.self == Float16.self { return cast(try floating(Float16.self, at: offset)) }
        if Value.self == Int32.self { return cast(try integer(Int32.self, at: offset)) }
        if Value.self == Int64.self { return cast(try integer(Int64.self, at: offset)) }
        if Value.self == UInt8.self { return cast(try integer(UInt8.self, at: offset)) }
        if Value.self == UInt32.self { return cast(try integer(UInt32.self, at: offset)) }
        if Value.self == UInt64.self { return cast(try integer(UInt64.self, at: offset)) }
        if Value.self == UInt.self { return cast(try integer(UInt.self, at: offset)) }
        if Value.self == UInt16.self { return cast(try integer(UInt16.self, at: offset)) }
        if Value.self == Int16.self { return cast(try integer(Int16.self, at: offset)) }
        if Value.self == Int8.self { return cast(try integer(Int8.self, at: offset)) }
        if Value.self == Int128.self { return cast(try integer(Int128.self, at: offset)) }
        if Value.self == UInt128.self { return cast(try integer(UInt128.self, at: offset)) }
        if Value.self == [UInt8].self, let bytes = try byteString(at: offset) { return cast(bytes) }
        return try decodeByItself(type, at: offset)
    }

    private func decodeByItself<Value: Decodable>(_ type: Value.Type, at offset: Int) throws -> Value {
        if isStringOrTagged(at: offset), let value = try decodeAtOnce(type, at: offset) { return value }
        return try Value(from: CBORDecoder(reader: self, offset: offset))
    }

    /// A value of bytes or of numbers that lie here as they do in the value; nil for another one.
    private func decodeAtOnce<Value: Decodable>(_ type: Value.Type, at offset: Int) throws -> Value? {
        let (tag, head) = try taggedHead(at: offset)
        guard head.major == .bytes, !head.isIndefinite else { return nil }
        guard let tag, CBORNumberArray(tag: tag) != nil else {
            guard let type = type as? any CBORByteString.Type else { return nil }
            return try type.init(byteString: payload(of: head)) as? Value
        }
        return try CBORArrays.numbers(of: type) { type in
            func numbers<Number: CBORArrayNumber>(_: Number.Type) throws -> Value? {
                guard 1.littleEndian == 1 else { return nil }
                let payload = try payload(of: head)
                guard tag == Number.arrayTag else {
                    return Number.widened(payload, tag: tag).map { unsafeBitCast($0, to: Value.self) }
                }
                guard payload.count % MemoryLayout<Number>.size == 0 else { return nil }
                let numbers = [Number](unsafeUninitializedCapacity: payload.count / MemoryLayout<Number>.size) {
                    UnsafeMutableRawBufferPointer($0).copyMemory(from: payload)
                    $1 = $0.count
                }
                return unsafeBitCast(numbers, to: Value.self)
            }
            return try numbers(type)
        }
    }

    /// The numbers of a tagged byte string as an array of items; nil for another item.
    func numberItems(at offset: Int) throws -> [UInt8]? {
        let (tag, head) = try taggedHead(at: offset)
        guard head.major == .bytes, let array = tag.flatMap(CBORNumberArray.init(tag:)) else { return nil }
        let items =
            head.isIndefinite
            ? try payload(ofString: head).withUnsafeBytes(array.items) : array.items(of: try payload(of: head))
        if let items { return items }
        throw error("an array of numbers ends inside a number", at: offset)
    }

    @inline(__always) func isNull(at offset: Int) throws -> Bool {
        let head = try untaggedHead(at: offset)
        return head.major == .simple && (head.low == 22 || head.low == 23)
    }

    private func bool(at offset: Int) throws -> Bool {
        let head = try untaggedHead(at: offset)
        guard head.major == .simple, head.low == 20 || head.low == 21 else { throw mismatch(Bool.self, at: offset) }
        return head.low == 21
    }

    private func string(at offset: Int) throws -> String {
        let head = try untaggedHead(at: offset)
        guard head.major == .text else { throw mismatch(String.self, at: offset) }
        guard let text = try text(of: head) else { throw error("a text is not UTF-8", at: offset) }
        return text
    }

    /// The bytes of a byte string; nil for another item, also for one that is an array of larger numbers.
    func byteString(at offset: Int) throws -> [UInt8]? {
        let (tag, head) = try taggedHead(at: offset)
        guard head.major == .bytes, tag.flatMap(CBORNumberArray.init(tag:)) == nil else { return nil }
        return try payload(ofString: head)
    }

    // MARK: Numbers

    @inline(__always)
    private func integer<Number: FixedWidthInteger>(_ type: Number.Type, at offset: Int) throws -> Number {
        let head = try untaggedHead(at: offset)
        switch head.major {
        case .unsigned: if let number = Number(exactly: head.number) { return number }
        case .negative:
            // The number is -1 - head.number, whose bits are those of ~head.number.
            if let number = Number(exactly: ~Int128(head.number)) { return number }
        default: return try unusualInteger(type, at: offset)
        }
        throw error("the integer does not fit in \(type)", at: offset)
    }

    /// The integer of a floating number without a fraction, or of a long one.
    private func unusualInteger<Number: FixedWidthInteger>(_ type: Number.Type, at offset: Int) throws -> Number {
        if let number = try floatingItem(at: offset) {
            guard let number = Number(exactly: number) else {
                throw error("the floating number does not fit in \(type)", at: offset)
            }
            return number
        }
        guard let (isNegative, magnitude) = try longInteger(at: offset) else { throw mismatch(type, at: offset) }
        let number =
            isNegative ? Int128(exactly: magnitude).flatMap { Number(exactly: ~$0) } : Number(exactly: magnitude)
        guard let number else { throw error("the integer does not fit in \(type)", at: offset) }
        return number
    }

    /// The number of a byte string with tag 2 or 3; nil for another item, or for more than 128 bits.
    private func longInteger(at offset: Int) throws -> (isNegative: Bool, UInt128)? {
        let (tag, head) = try taggedHead(at: offset)
        guard head.major == .bytes, tag == 2 || tag == 3 else { return nil }
        let payload = try payload(ofString: head).drop { $0 == 0 }
        guard payload.count <= 16 else { return nil }
        return (tag == 3, payload.reduce(0) { $0 << 8 | UInt128($1) })
    }

    /// The number of a floating item; nil for another one.
    @inline(__always) private func floatingItem(at offset: Int) throws -> Double? {
        let head = try untaggedHead(at: offset)
        guard head.major == .simple else { return nil }
        switch head.low {
        case 27: return Double(bitPattern: head.number)
        case 26: return Double(Float(bitPattern: UInt32(truncatingIfNeeded: head.number)))
        case 25: return Double(Float16(bitPattern: UInt16(truncatingIfNeeded: head.number)))
        default: return nil
        }
    }

    private func floating<Number: BinaryFloatingPoint>(_ type: Number.Type, at offset: Int) throws -> Number {
        if let item = try floatingItem(at: offset) {
            let number = Number(item)
            if number.isFinite || !item.isFinite { return number }
            throw error("the number does not fit in \(type)", at: offset)
        }
        let head = try untaggedHead(at: offset)
        switch head.major {
        case .unsigned: if let number = Number(exactly: head.number) { return number }
        case .negative: if let number = Number(exactly: ~Int128(head.number)) { return number }
        default: throw mismatch(type, at: offset)
        }
        throw error("the integer does not fit in \(type)", at: offset)
    }

    // MARK: Errors

    /// A value of this type is not what lies at the offset.
    func mismatch(_ type: Any.Type, at offset: Int) -> any Error {
        let found = (try? untaggedHead(at: offset)).map(Self.name) ?? "nothing"
        let context = DecodingError.Context(
            codingPath: path(to: offset), debugDescription: "\(type) was asked for, and \(found) is there")
        return (try? isNull(at: offset)) == true
            ? DecodingError.valueNotFound(type, context) : DecodingError.typeMismatch(type, context)
    }

    func error(_ sentence: String, at offset: Int) -> DecodingError {
        .dataCorrupted(.init(codingPath: path(to: offset), debugDescription: sentence))
    }

    private static func name(of head: CBORHead) -> String {
        switch head.major {
        case .unsigned, .negative: "an integer"
        case .bytes: "a byte string"
        case .text: "a text"
        case .array: "an array"
        case .map: "a map"
        case .tag: "a tag"
        case .simple:
            switch head.low {
            case 20, 21: "a boolean"
            case 22, 23: "null"
            case 25, 26, 27: "a floating number"
            default: "a simple value"
            }
        }
    }
}
