/// The kinds of CBOR's items.
enum CBORMajor: UInt8 {
    case unsigned = 0, negative, bytes, text, array, map, tag, simple

    /// The kind in the top three bits of a byte.
    init(of byte: UInt8) { self = unsafeBitCast(byte >> 5, to: Self.self) }

    /// The first byte of an item of this kind.
    func byte(_ low: UInt8) -> UInt8 { rawValue << 5 | low }
}

/// Whole bytes of some items.
enum CBORByte {
    static let `false`: UInt8 = 0xF4
    static let `true`: UInt8 = 0xF5
    static let null: UInt8 = 0xF6
    static let undefined: UInt8 = 0xF7
    static let half: UInt8 = 0xF9
    static let float: UInt8 = 0xFA
    static let double: UInt8 = 0xFB
    static let `break`: UInt8 = 0xFF
    /// In the low five bits: the length comes with the break.
    static let indefinite: UInt8 = 31
    /// The largest count in the low five bits themselves.
    static let largestShort = 23
}

/// A key or an index, where a name is needed for an error.
struct CBORKey: CodingKey {
    var stringValue: String
    var intValue: Int?

    init(stringValue: String) { self.stringValue = stringValue }
    init(intValue: Int) { (self.intValue, stringValue) = (intValue, "Index \(intValue)") }
    init(integer: Int) { (intValue, stringValue) = (integer, "\(integer)") }

    static var superclass: CBORKey { CBORKey(stringValue: "super") }
}
