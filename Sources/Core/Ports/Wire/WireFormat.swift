import ZeroMQ

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

    /// Reads an unchecked frame. A malformed frame may look like a probe.
    static func isDrainProbe(_ frame: borrowing ZeroMQFrame) -> Bool {
        frame.withUnsafeBytes { $0.count >= headerSize && $0[2] == Kind.drainProbe.rawValue }
    }

    /// The message that wakes a port whose list of local messages was closed. No other frame is as short.
    static func bell(_ mark: UInt32) throws(ZeroMQError) -> ZeroMQFrame {
        var frame = try ZeroMQFrame(count: MemoryLayout.size(ofValue: mark))
        frame.withUnsafeMutableBytes { $0.setLittle(mark, at: 0) }
        return frame
    }

    /// Whether a frame is the bell of the runtime with the mark. A bell comes by `inproc`, so it has no peer address.
    static func isBell(_ frame: borrowing ZeroMQFrame, _ mark: UInt32) -> Bool {
        frame.withUnsafeBytes { $0.count == MemoryLayout.size(ofValue: mark) && $0.little(at: 0) == mark }
            && frame.property("Peer-Address") == nil
    }

    /// Names the packet that has the descriptors of a message.
    struct DescriptorToken: Hashable {
        static let size = 16

        let socket: UInt64
        let packet: UInt64
    }

    /// Reads an unchecked frame; nil for a message without descriptors.
    static func descriptorToken(of frame: borrowing ZeroMQFrame) -> DescriptorToken? {
        frame.withUnsafeBytes { bytes in
            let start = bytes.count - DescriptorToken.size
            guard start >= headerSize, bytes[2] & descriptorsBit != 0 else { return nil }
            return DescriptorToken(socket: bytes.little(at: start), packet: bytes.little(at: start + 8))
        }
    }

    static func setDescriptorToken(_ token: DescriptorToken, of frame: inout ZeroMQFrame) {
        frame.withUnsafeMutableBytes { bytes in
            bytes.setLittle(token.socket, at: bytes.count - DescriptorToken.size)
            bytes.setLittle(token.packet, at: bytes.count - DescriptorToken.size + 8)
        }
    }

    static func setOrigin(_ origin: UInt32, of frame: inout ZeroMQFrame) {
        frame.withUnsafeMutableBytes { if $0.count >= headerSize { $0.setLittle(origin, at: 12) } }
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
