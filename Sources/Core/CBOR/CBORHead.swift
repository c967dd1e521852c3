/// The kinds of CBOR's items.
enum CBORMajor: UInt8 {
    case unsigned = 0, negative, bytes, text, array, map, tag, simple

    /// The kind in the top three bits of a byte. Sound: each of their eight values is a case.
    @inline(__always) init(of byte: UInt8) { self = unsafeBitCast(byte >> 5, to: Self.self) }

    /// The first byte of an item of this kind.
    func byte(_ low: UInt8) -> UInt8 { rawValue << 5 | low }
}

/// The first bytes of an item.
struct CBORHead {
    let major: CBORMajor
    /// The low five bits of the first byte.
    let low: UInt8
    /// The count, the integer, or the bits of a floating number.
    let number: UInt64
    /// The offset behind the head.
    let end: Int

    var isIndefinite: Bool { low == CBORByte.indefinite }
}

/// Whole bytes of some items.
enum CBORByte {
    static let `false`: UInt8 = 0xF4
    static let `true`: UInt8 = 0xF5
    static let null: UInt8 = 0xF6
    static let half: UInt8 = 0xF9
    static let float: UInt8 = 0xFA
    static let double: UInt8 = 0xFB
    static let `break`: UInt8 = 0xFF
    /// In the low five bits: the length comes with the break.
    static let indefinite: UInt8 = 31
    /// The largest count in the low five bits themselves.
    static let largestShort = 23
}

/// A key or an index in the coding path of an error.
struct CBORKey: CodingKey {
    let stringValue: String
    let intValue: Int?

    init(stringValue: String) { (self.stringValue, intValue) = (stringValue, nil) }
    init(intValue: Int) { (self.intValue, stringValue) = (intValue, "Index \(intValue)") }
    init(integer: Int) { (intValue, stringValue) = (integer, "\(integer)") }

    static var superclass: CBORKey { CBORKey(stringValue: "super") }
}
