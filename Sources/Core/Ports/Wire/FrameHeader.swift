import ZeroMQ

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
