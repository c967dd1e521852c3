/// A question of another process about a port, as a packet of a control connection:
///
///     0   packet    UInt8     13, and a zero byte
///     2   right     UInt16    the size of the right
///     4   question  UInt32    the size of the question
///     8   number    UInt64    the port's
///    16   the right to the port for the answers, and the question in CBOR
struct QuestionPacket: Equatable {
    static let packet: UInt8 = 13
    private static let fixedSize = 16
    private static let mostQuestion = 640
    static let largestSize = fixedSize + WireRight.fixedSize + Wire.longestSocketPath + mostQuestion

    let number: UInt64
    let answers: WireRight
    let question: [UInt8]
}

extension QuestionPacket {
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= Self.fixedSize, bytes.count <= Self.largestSize, bytes[0] == Self.packet, bytes[1] == 0
        else { return nil }
        let (size, count) = (Int(bytes.little(at: 2) as UInt16), Int(bytes.little(at: 4) as UInt32))
        guard bytes.count == Self.fixedSize + size + count, count <= Self.mostQuestion else { return nil }
        let end = Self.fixedSize + size
        let right = try? WireRight(checking: UnsafeRawBufferPointer(rebasing: bytes[Self.fixedSize..<end]))
        guard let right else { return nil }
        number = bytes.little(at: 8)
        answers = right
        question = Array(bytes[end...])
    }

    /// Writes into at least ``largestSize`` bytes, and returns the packet's size.
    func write(to bytes: UnsafeMutableRawBufferPointer) -> Int {
        let question = question.prefix(Self.mostQuestion)
        let end = Self.fixedSize + answers.size
        bytes.setLittle(UInt16(Self.packet), at: 0)
        bytes.setLittle(UInt16(answers.size), at: 2)
        bytes.setLittle(UInt32(question.count), at: 4)
        bytes.setLittle(number, at: 8)
        answers.write(to: UnsafeMutableRawBufferPointer(rebasing: bytes[Self.fixedSize..<end]))
        UnsafeMutableRawBufferPointer(rebasing: bytes[end...]).copyBytes(from: question)
        return end + question.count
    }
}
