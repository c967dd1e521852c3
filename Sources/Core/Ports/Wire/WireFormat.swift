import ZeroMQ

// The layout of a message in its one ZeroMQ frame. All numbers are little-endian.
//
//     0   magic     UInt8     0xB7
//     1   version   UInt8     of this layout
//     2   kind      UInt8     message, request, reply, drain probe or failure; the top bit marks descriptors
//     3   reply     UInt8     the size of the reply right in bytes; 0: no reply right
//     4   id        UInt32    the message's id
//     8   count     UInt32    the number of components
//    12   origin    UInt32    inside one runtime: its mark. From another process to a port with a byte limit, and in
//                            drain probes: the number that the port's process gave the sender (see ControlHello).
//                            Otherwise 0.
//         request   UInt64    not in messages: the number of the request or of the probe
//         sizes     UInt32    one for each component: its size in bytes; the top bit marks a right to a port, or, with a
//                            size of 0, a descriptor. The next bit of a right marks the right to receive: the component
//                            is the right to a port that hands the other one over
//         the reply right, then the components, without gaps
//         socket    UInt64    with descriptors only: the number of the socket by which they came (see ControlMessage), and
//         packet    UInt64    that of their packet
//
// Every size is checked against the frame's size before anything is read. Surplus bytes make a frame malformed.

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

extension Wire {
    /// The size of the header of a message of one component of bytes, without a right to reply.
    static let plainHeaderSize = headerSize + 4

    /// A copy of such a header, for a check without the frame.
    struct PlainHeader {
        private let words: (UInt64, UInt64, UInt32)

        @inline(__always) init(copying start: UnsafeRawPointer) {
            words = (
                UInt64(littleEndian: start.load(as: UInt64.self)),
                UInt64(littleEndian: start.load(fromByteOffset: 8, as: UInt64.self)),
                UInt32(littleEndian: start.load(fromByteOffset: 16, as: UInt32.self))
            )
        }

        @inline(__always) var id: UInt32 { UInt32(truncatingIfNeeded: words.0 >> 32) }

        /// Whether the header is that of such a message, whose frame has this size.
        @inline(__always) func isPlain(frameSize: Int) -> Bool {
            let start = UInt64(magic) | UInt64(version) << 8 | UInt64(Kind.message.rawValue) << 16
            return words.0 & 0xFFFF_FFFF == start && words.1 & 0xFFFF_FFFF == 1
                && Int(words.2) == frameSize - plainHeaderSize
        }
    }

    /// Writes such a header.
    @inline(__always)
    static func writePlainHeader(id: UInt32, byteCount: Int, to start: UnsafeMutableRawPointer) {
        let first = UInt64(magic) | UInt64(version) << 8 | UInt64(id) << 32
        start.storeBytes(of: first.littleEndian, as: UInt64.self)
        start.storeBytes(of: (1 as UInt64).littleEndian, toByteOffset: 8, as: UInt64.self)
        start.storeBytes(of: UInt32(truncatingIfNeeded: byteCount).littleEndian, toByteOffset: 16, as: UInt32.self)
    }
}
