/// A send right on the wire:
///
///     0   version   UInt8     the version of this layout
///     1   zero      UInt8
///     2   path      UInt16    the length of the path in bytes
///     4   queue     UInt32    the port's queue limit, in messages of one sender
///     8   number    UInt64
///    16   process   UInt128
///    32   limit     UInt64    the largest message that the port takes, in bytes
///    40   bytes     UInt64    the port's byte limit, for one sender; 0: no limit
///    48   path: the registry directory of the port's owner; empty inside one process
struct WireRight: Hashable {
    static let fixedSize = 48
    static let version: UInt8 = 1

    var id: PortID
    var queueLimit: UInt32
    var limit: Int
    /// 0 for none.
    var byteLimit = 0
    var path: String

    var size: Int { Self.fixedSize + path.utf8.count }
}

extension WireRight {
    /// Reads a right from the wire.
    /// - Throws: `Wire.Malformed`, also for surplus bytes.
    init(checking bytes: UnsafeRawBufferPointer) throws(Wire.Malformed) {
        guard bytes.count >= Self.fixedSize else { throw .badRight }
        guard bytes[0] == Self.version else { throw .badRightVersion(bytes[0]) }
        let length = Int(bytes.little(at: 2) as UInt16)
        guard bytes[1] == 0, bytes.count == Self.fixedSize + length else { throw .badRight }
        queueLimit = bytes.little(at: 4)
        id = PortID(incarnation: Incarnation(bits: bytes.little(at: 16)), number: bytes.little(at: 8))
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

    /// Whether the text can be the path of a registry directory.
    static func isDirectory(_ path: some Collection<UInt8>) -> Bool {
        path.first == UInt8(ascii: "/") && !path.contains(0) && path.count <= Wire.longestSocketPath
    }

    func write(to bytes: UnsafeMutableRawBufferPointer) {
        var path = path
        path.withUTF8 { path in
            bytes[0] = Self.version
            bytes[1] = 0
            bytes.setLittle(UInt16(path.count), at: 2)
            bytes.setLittle(queueLimit, at: 4)
            bytes.setLittle(id.number, at: 8)
            bytes.setLittle(id.incarnation.bits, at: 16)
            bytes.setLittle(UInt64(limit), at: 32)
            bytes.setLittle(UInt64(byteLimit), at: 40)
            UnsafeMutableRawBufferPointer(rebasing: bytes[Self.fixedSize...]).copyBytes(from: path)
        }
    }
}
