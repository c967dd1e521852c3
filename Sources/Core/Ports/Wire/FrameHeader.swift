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

/// The header of a checked frame: enough to find every component without another check.
struct FrameHeader: Equatable {
    var kind: Wire.Kind = .message
    var id: UInt32 = 0
    var request: UInt64 = 0
    var count = 0
    var replySize = 0
    var origin: UInt32 = 0
    var descriptorCount = 0

    @inline(__always) var sizesOffset: Int { Wire.headerSize + (kind == .message ? 0 : Wire.requestSize) }
    @inline(__always) var replyOffset: Int { sizesOffset + 4 * count }
    @inline(__always) var componentsOffset: Int { replyOffset + replySize }
    @inline(__always) var descriptorTokenSize: Int { descriptorCount == 0 ? 0 : Wire.DescriptorToken.size }
}

extension FrameHeader {
    init(checking bytes: UnsafeRawBufferPointer) throws(Wire.Malformed) {
        guard bytes.count >= Wire.headerSize else { throw .tooShort }
        guard bytes[0] == Wire.magic else { throw .badMagic }
        guard bytes[1] == Wire.version else { throw .badVersion(bytes[1]) }
        guard let kind = Wire.Kind(rawValue: bytes[2] & ~Wire.descriptorsBit) else { throw .badKind }
        self.kind = kind
        id = bytes.little(at: 4)
        count = Int(bytes.little(at: 8) as UInt32)
        replySize = Int(bytes[3])
        origin = bytes.little(at: 12)
        guard bytes.count >= sizesOffset else { throw .tooShort }
        if kind != .message { request = bytes.little(at: Wire.headerSize) }
        // Each term has 32 bits: no sum of them overflows an Int.
        let start = componentsOffset
        guard start <= bytes.count else { throw .badSize }
        var end = start
        for index in 0..<count {
            let size: UInt32 = bytes.little(at: sizesOffset + 4 * index)
            let length = Self.length(size)
            if size == Wire.portBit {
                descriptorCount += 1
            } else if size & Wire.portBit != 0 {
                guard end + length <= bytes.count else { throw .badSize }
                _ = try WireRight(checking: UnsafeRawBufferPointer(rebasing: bytes[end..<end + length]))
            }
            end += length
        }
        guard end + descriptorTokenSize == bytes.count, descriptorCount <= Wire.mostDescriptors,
            (descriptorCount > 0) == (bytes[2] & Wire.descriptorsBit != 0)
        else { throw .badSize }
        if replySize > 0 { _ = try WireRight(checking: UnsafeRawBufferPointer(rebasing: bytes[replyOffset..<start])) }
    }

    /// The length of a component by its size field, which may have bits for what it is.
    @inline(__always)
    static func length(_ size: UInt32) -> Int {
        Int(size & Wire.portBit == 0 ? size : size & ~(Wire.portBit | Wire.receiveBit))
    }

    func write(to bytes: UnsafeMutableRawBufferPointer) {
        bytes[0] = Wire.magic
        bytes[1] = Wire.version
        bytes[2] = kind.rawValue | (descriptorCount > 0 ? Wire.descriptorsBit : 0)
        // A right has at most 155 bytes.
        bytes[3] = UInt8(clamping: replySize)
        bytes.setLittle(id, at: 4)
        bytes.setLittle(UInt32(count), at: 8)
        bytes.setLittle(origin, at: 12)
        if kind != .message { bytes.setLittle(request, at: Wire.headerSize) }
    }
}

/// A component of a checked frame, and where it lies.
enum FramePart {
    case bytes(Range<Int>)
    case right(Range<Int>)
    /// The right to a port that hands over a port to receive from.
    case receiveRight(Range<Int>)
    case descriptor

    init(_ size: UInt32, at offset: Int) {
        let range = offset..<offset + FrameHeader.length(size)
        self =
            switch (size & Wire.portBit != 0, size & Wire.receiveBit != 0) {
            case (false, _): .bytes(range)
            case (true, true): .receiveRight(range)
            case (true, false): range.isEmpty ? .descriptor : .right(range)
            }
    }
}

extension FrameHeader {
    /// A component of a checked frame; nil past the last.
    @inline(__always)
    func part(_ index: Int, in bytes: UnsafeRawBufferPointer) -> FramePart? {
        guard (0..<count).contains(index) else { return nil }
        var offset = componentsOffset
        for earlier in 0..<index { offset += Self.length(bytes.little(at: sizesOffset + 4 * earlier)) }
        return FramePart(bytes.little(at: sizesOffset + 4 * index), at: offset)
    }

    /// Calls `body` with the components of a checked frame, in order.
    func forEachPart(in bytes: UnsafeRawBufferPointer, _ body: (FramePart) -> Void) {
        var offset = componentsOffset
        for index in 0..<count {
            let size: UInt32 = bytes.little(at: sizesOffset + 4 * index)
            body(FramePart(size, at: offset))
            offset += Self.length(size)
        }
    }
}

extension FrameHeader {
    /// The message, as the log names it.
    func text(_ count: Int, size: Int, name: String? = nil) -> String {
        let named = name.map { " (\($0))" } ?? ""
        let subject =
            switch kind {
            case .message: "message of id \(id)"
            case .request: "request \(request) of id \(id)\(named)"
            case .reply: "reply to request \(request)"
            case .failure: "failure of request \(request)"
            case .drainProbe: "drain probe \(request)"
            }
        return "\(subject), \(count) \(count == 1 ? "component" : "components"), \(size) bytes"
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
