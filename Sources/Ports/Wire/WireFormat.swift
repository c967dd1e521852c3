import Glibc
import ZeroMQ

// How a message lies in its one ZeroMQ frame, all numbers little-endian:
//
//     0   magic     UInt8     0xB7
//     1   version   UInt8     the major version
//     2   kind      UInt8     message, request, reply, or the question whether all before it have been taken
//     3   reply     UInt8     how many bytes of reply right; 0: none
//     4   id        UInt32    the message's id
//     8   count     UInt32    how many components
//    12   origin    UInt32    inside one process, its mark. From another process to a port with a byte limit, and in
//                            questions: what the port's process calls the sender (see ControlHello). Else 0.
//         request   UInt64    not in messages: which request, or which question
//         sizes     UInt32    one for each component: its size in bytes; the top bit is set for a port
//         the reply right, the components, one after the other
//
// Every size is checked against what is there before anything is looked at; what is left over makes a frame malformed.

enum Wire {
    static let magic: UInt8 = 0xB7
    static let version: UInt8 = 1
    static let headerSize = 16
    static let requestSize = 8
    static let portBit: UInt32 = 1 << 31
    /// A component's size has 31 bits.
    static let largestMessage = Int(Int32.max)

    enum Kind: UInt8 {
        case message = 0
        case request = 1
        case reply = 2
        case drainQuestion = 3
    }

    /// Before it is checked; a malformed one may be taken for one.
    static func isDrainQuestion(_ frame: borrowing Frame) -> Bool {
        var kind: UInt8?
        frame.readBytes { if $0.count >= headerSize { kind = $0[2] } }
        return kind == Kind.drainQuestion.rawValue
    }

    /// Says who sends the frame.
    static func setOrigin(_ origin: UInt32, of frame: inout Frame) {
        frame.withUnsafeMutableBytes { if $0.count >= headerSize { $0.setLittle(origin, at: 12) } }
    }

    enum Malformed: Error, Equatable, CustomStringConvertible {
        case tooShort
        case badMagic
        case badVersion(UInt8)
        case badKind
        case badSize
        case badRight
        case badRightVersion(UInt8)
        case severalFrames

        var description: String {
            switch self {
            case .tooShort: "it is cut short"
            case .badMagic: "it is no message of this library's"
            case .badVersion(let theirs): "it has version \(theirs), and this library speaks version \(Wire.version)"
            case .severalFrames: "it is one of several that make a message"
            case .badKind: "it is of an unknown kind"
            case .badSize: "its sizes do not add up"
            case .badRight: "a right in it is malformed"
            case .badRightVersion(let theirs):
                "a right in it has version \(theirs), and this library speaks version \(WireRight.version)"
            }
        }
    }
}

/// What is known of a frame after it was checked: enough to find every component without looking twice.
struct WireHeader: Equatable {
    var kind: Wire.Kind = .message
    var id: UInt32 = 0
    var request: UInt64 = 0
    var count = 0
    var replySize = 0
    var origin: UInt32 = 0

    var sizesOffset: Int { Wire.headerSize + (kind == .message ? 0 : Wire.requestSize) }
    var replyOffset: Int { sizesOffset + 4 * count }
    var componentsOffset: Int { replyOffset + replySize }
}

extension WireHeader {
    /// Reads and checks a whole frame.
    init(checking bytes: UnsafeRawBufferPointer) throws(Wire.Malformed) {
        guard bytes.count >= Wire.headerSize else { throw .tooShort }
        guard bytes[0] == Wire.magic else { throw .badMagic }
        guard bytes[1] == Wire.version else { throw .badVersion(bytes[1]) }
        guard let kind = Wire.Kind(rawValue: bytes[2]) else { throw .badKind }
        self.kind = kind
        id = bytes.little(at: 4)
        count = Int(bytes.little(at: 8) as UInt32)
        replySize = Int(bytes[3])
        origin = bytes.little(at: 12)
        guard bytes.count >= sizesOffset else { throw .tooShort }
        if kind != .message { request = bytes.little(at: Wire.headerSize) }
        // Both fit an Int many times over: no sum of them overflows.
        let start = componentsOffset
        guard start <= bytes.count else { throw .badSize }
        var end = start
        for index in 0..<count {
            let size: UInt32 = bytes.little(at: sizesOffset + 4 * index)
            let length = Int(size & ~Wire.portBit)
            if size & Wire.portBit != 0 {
                guard end + length <= bytes.count else { throw .badSize }
                _ = try WireRight(checking: UnsafeRawBufferPointer(rebasing: bytes[end..<end + length]))
            }
            end += length
        }
        guard end == bytes.count else { throw .badSize }
        if replySize > 0 {
            _ = try WireRight(checking: UnsafeRawBufferPointer(rebasing: bytes[replyOffset..<start]))
        }
    }

    func write(to bytes: UnsafeMutableRawBufferPointer) {
        bytes[0] = Wire.magic
        bytes[1] = Wire.version
        bytes[2] = kind.rawValue
        // A right has up to 155.
        bytes[3] = UInt8(clamping: replySize)
        bytes.setLittle(id, at: 4)
        bytes.setLittle(UInt32(count), at: 8)
        bytes.setLittle(origin, at: 12)
        if kind != .message { bytes.setLittle(request, at: Wire.headerSize) }
    }
}

/// A send right as it travels:
///
///     0   version   UInt8     the major version of this form
///     1   zero      UInt8
///     2   path      UInt16    how many bytes of path
///     4   queue     UInt32    how many messages of one sender the port's queue holds
///     8   number    UInt64
///    16   process   2 × UInt64, the low half first
///    32   limit     UInt64    the largest message the port takes, in bytes
///    40   bytes     UInt64    how many bytes of one sender's messages the port's queue holds; 0: any
///    48   path: the registry directory in which its owner can be found; empty inside one process
struct WireRight: Equatable {
    static let fixedSize = 48
    static let version: UInt8 = 1

    var id: PortID
    var queueLimit: UInt32
    var limit: Int
    /// 0 for none.
    var byteLimit: Int
    var path: String

    var size: Int { Self.fixedSize + path.utf8.count }

    init(id: PortID, queueLimit: UInt32, limit: Int, byteLimit: Int = 0, path: String) {
        self.id = id
        self.queueLimit = queueLimit
        self.limit = limit
        self.byteLimit = byteLimit
        self.path = path
    }

    init(checking bytes: UnsafeRawBufferPointer) throws(Wire.Malformed) {
        guard bytes.count >= Self.fixedSize else { throw .badRight }
        guard bytes[0] == Self.version else { throw .badRightVersion(bytes[0]) }
        let length = Int(bytes.little(at: 2) as UInt16)
        guard bytes[1] == 0, bytes.count == Self.fixedSize + length else { throw .badRight }
        queueLimit = bytes.little(at: 4)
        let high: UInt64 = bytes.little(at: 24)
        let low: UInt64 = bytes.little(at: 16)
        id = PortID(
            incarnation: Incarnation(bits: UInt128(high) << 64 | UInt128(low)), number: bytes.little(at: 8))
        guard let limit = Int(exactly: bytes.little(at: 32) as UInt64),
            let byteLimit = Int(exactly: bytes.little(at: 40) as UInt64)
        else { throw .badRight }
        self.limit = limit
        self.byteLimit = byteLimit
        let pathBytes = bytes[Self.fixedSize...]
        guard length == 0 || Self.isDirectory(pathBytes), let path = String(validating: pathBytes, as: UTF8.self)
        else { throw .badRight }
        self.path = path
    }

    /// Whether it can be the path of a registry directory, as far as its text says.
    static func isDirectory(_ path: some Collection<UInt8>) -> Bool {
        path.first == UInt8(ascii: "/") && !path.contains(0) && path.count <= LocalSocket.longestPath
    }

    func write(to bytes: UnsafeMutableRawBufferPointer) {
        var path = path
        path.withUTF8 { path in
            bytes[0] = Self.version
            bytes[1] = 0
            bytes.setLittle(UInt16(path.count), at: 2)
            bytes.setLittle(queueLimit, at: 4)
            bytes.setLittle(id.number, at: 8)
            bytes.setLittle(UInt64(truncatingIfNeeded: id.incarnation.bits), at: 16)
            bytes.setLittle(UInt64(truncatingIfNeeded: id.incarnation.bits >> 64), at: 24)
            bytes.setLittle(UInt64(limit), at: 32)
            bytes.setLittle(UInt64(byteLimit), at: 40)
            UnsafeMutableRawBufferPointer(rebasing: bytes[Self.fixedSize...]).copyMemory(
                from: UnsafeRawBufferPointer(path))
        }
    }
}

extension UnsafeRawBufferPointer {
    func little<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int) -> Number {
        Number(littleEndian: loadUnaligned(fromByteOffset: offset, as: Number.self))
    }
}

extension UnsafeMutableRawBufferPointer {
    func setLittle<Number: FixedWidthInteger & BitwiseCopyable>(_ number: Number, at offset: Int) {
        storeBytes(of: number.littleEndian, toByteOffset: offset, as: Number.self)
    }
}
