/// A question of another process about a port, as a packet of a control connection:
///
///     0   packet    UInt8     13
///     1   kind      UInt8
///     2   right     UInt16    the size of the right
///     4   arguments UInt16    their size, and two zero bytes
///     8   number    UInt64    the port's
///    16   the right to the port for the answers, and the arguments
struct InspectionQuestion: Equatable {
    static let packet: UInt8 = 13
    private static let fixedSize = 16
    static let mostArguments = 512
    static let largestSize = fixedSize + WireRight.fixedSize + Wire.longestSocketPath + mostArguments

    /// An ``InspectionKind``, unless the asker is newer than this library.
    let kind: UInt8
    let number: UInt64
    let answers: WireRight
    /// The values of the kind, by a ``FieldWriter``.
    let arguments: [UInt8]
}

extension InspectionQuestion {
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= Self.fixedSize, bytes.count <= Self.largestSize, bytes[0] == Self.packet else {
            return nil
        }
        let (size, count) = (Int(bytes.little(at: 2) as UInt16), Int(bytes.little(at: 4) as UInt16))
        guard bytes.little(at: 6) as UInt16 == 0, bytes.count == Self.fixedSize + size + count else { return nil }
        let end = Self.fixedSize + size
        let right = try? WireRight(checking: UnsafeRawBufferPointer(rebasing: bytes[Self.fixedSize..<end]))
        guard let right, count <= Self.mostArguments else { return nil }
        kind = bytes[1]
        number = bytes.little(at: 8)
        answers = right
        arguments = Array(bytes[end...])
    }

    /// Writes into at least ``largestSize`` bytes, and returns the packet's size.
    func write(to bytes: UnsafeMutableRawBufferPointer) -> Int {
        let arguments = arguments.prefix(Self.mostArguments)
        let end = Self.fixedSize + answers.size
        bytes[0] = Self.packet
        bytes[1] = kind
        bytes.setLittle(UInt16(answers.size), at: 2)
        bytes.setLittle(UInt32(arguments.count), at: 4)
        bytes.setLittle(number, at: 8)
        answers.write(to: UnsafeMutableRawBufferPointer(rebasing: bytes[Self.fixedSize..<end]))
        UnsafeMutableRawBufferPointer(rebasing: bytes[end...]).copyBytes(from: arguments)
        return end + arguments.count
    }
}
