// What two processes say to each other beside their messages: small packets on one SEQPACKET socket, little-endian.
//
//     hello        "SPRT", major UInt8, minor UInt8, zero UInt16, process 2 × UInt64
//     watch        1 UInt8, number UInt64: tell me when this port of yours is invalid
//     invalidated  2 UInt8, number UInt64: this port of mine is
//     unanswered   3 UInt8, request UInt64: that request of yours will have no reply

enum ControlMessage: Equatable {
    case watch(UInt64)
    case invalidated(UInt64)
    case unanswered(UInt64)

    static let size = 9

    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == Self.size else { return nil }
        let number: UInt64 = bytes.little(at: 1)
        switch bytes[0] {
        case 1: self = .watch(number)
        case 2: self = .invalidated(number)
        case 3: self = .unanswered(number)
        default: return nil
        }
    }

    func write(to bytes: UnsafeMutableRawBufferPointer) {
        let (kind, number): (UInt8, UInt64) =
            switch self {
            case .watch(let number): (1, number)
            case .invalidated(let number): (2, number)
            case .unanswered(let request): (3, request)
            }
        bytes[0] = kind
        bytes.setLittle(number, at: 1)
    }
}

/// The first packet each way.
struct ControlHello: Equatable {
    static let size = 24
    static let major: UInt8 = 1
    static let minor: UInt8 = 0
    private static let magic: UInt32 = 0x5452_5053  // "SPRT"

    var major = Self.major
    let incarnation: Incarnation

    init(incarnation: Incarnation) { self.incarnation = incarnation }

    /// Another major version may have another size and other fields behind its number.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= Self.size, bytes.little(at: 0) == Self.magic else { return nil }
        major = bytes[4]
        let low: UInt64 = bytes.little(at: 8)
        let high: UInt64 = bytes.little(at: 16)
        incarnation = Incarnation(bits: UInt128(high) << 64 | UInt128(low))
    }

    func write(to bytes: UnsafeMutableRawBufferPointer) {
        bytes.setLittle(Self.magic, at: 0)
        bytes[4] = major
        bytes[5] = Self.minor
        bytes.setLittle(0 as UInt16, at: 6)
        bytes.setLittle(UInt64(truncatingIfNeeded: incarnation.bits), at: 8)
        bytes.setLittle(UInt64(truncatingIfNeeded: incarnation.bits >> 64), at: 16)
    }
}
