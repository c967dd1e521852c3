/// The first packet in each direction of a control connection, little-endian:
///
///     0   magic     UInt32    "SPRT"
///     4   version   UInt8     of the control protocol and of rings, and three zero bytes
///     8   process   UInt128
///    24   origin    UInt32
///    28   takes     UInt32: 1 when the process can map rings, plus 2 when it takes descriptors, plus 4 when it takes the
///                   reasons of failed requests
struct ControlHello: Equatable {
    static let size = 32
    static let version: UInt8 = 3
    private static let magic: UInt32 = 0x5452_5053

    var version = Self.version
    let incarnation: Incarnation
    /// The number that the sender of the hello gives the receiver, for frames from the receiver to the sender.
    var origin: UInt32 = 0
    /// Whether the sender of the hello can map rings.
    var takesRings = false
    /// Whether messages to the sender of the hello may have descriptors, as those to each process of this library may.
    var takesDescriptors = true
    /// Whether the sender of the hello takes the packet `failed`, as each process of this library does.
    var takesReasons = true
}

extension ControlHello {
    /// A hello of another version may be longer, with other fields after the version.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= Self.size, bytes.little(at: 0) == Self.magic else { return nil }
        version = bytes[4]
        incarnation = Incarnation(bits: bytes.little(at: 8))
        origin = bytes.little(at: 24)
        let takes: UInt32 = bytes.little(at: 28)
        (takesRings, takesDescriptors, takesReasons) = (takes & 1 != 0, takes & 2 != 0, takes & 4 != 0)
    }

    func write(to bytes: UnsafeMutableRawBufferPointer) {
        bytes.setLittle(Self.magic, at: 0)
        bytes.setLittle(UInt32(version), at: 4)
        bytes.setLittle(incarnation.bits, at: 8)
        bytes.setLittle(origin, at: 24)
        let takes: UInt32 = (takesRings ? 1 : 0) | (takesDescriptors ? 2 : 0) | (takesReasons ? 4 : 0)
        bytes.setLittle(takes, at: 28)
    }
}
