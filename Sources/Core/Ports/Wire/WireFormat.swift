// What the parts of a message's frame have in common. FrameHeader.swift has the layout.

enum Wire {
    static let magic: UInt8 = 0xB7
    static let version: UInt8 = 1
    static let headerSize = 16
    static let requestSize = 8
    static let portBit: UInt32 = 1 << 31
    static let receiveBit: UInt32 = 1 << 30
    static let descriptorsBit: UInt8 = 1 << 7
    static let mostDescriptors = 64
    /// A component's size has 31 bits.
    static let largestMessage = Int(Int32.max)
    /// The longest path that the address of a local socket holds.
    static let longestSocketPath = 107

    enum Kind: UInt8 {
        case message = 0, request, reply, drainProbe
        /// A failure in place of a reply. The id says what the components are: see `RequestFailure`.
        case failure
    }

    /// Names the packet that has the descriptors of a message.
    struct DescriptorToken: Hashable {
        static let size = 16

        let socket: UInt64
        let packet: UInt64
    }

    enum Malformed: Error, Equatable, CustomStringConvertible {
        case tooShort, severalFrames, badMagic, badKind, badSize, badRight
        case badVersion(UInt8), badRightVersion(UInt8)

        var description: String {
            switch self {
            case .tooShort: "the frame is too short"
            case .badMagic: "the frame does not begin with this library's magic number"
            case .badVersion(let theirs):
                "the frame has version \(theirs), and this library speaks version \(Wire.version)"
            case .severalFrames: "the message has several frames"
            case .badKind: "the frame's kind is unknown"
            case .badSize: "the sizes do not add up"
            case .badRight: "a right in the frame is malformed"
            case .badRightVersion(let theirs):
                "a right in the frame has version \(theirs), and this library speaks version \(WireRight.version)"
            }
        }
    }
}
