/// The packets of a control connection after the hellos: one byte for the kind, then one or two little-endian UInt64,
/// mostly beginning with a port's number. A question has a layout of its own, and a text comes behind one number.
enum ControlMessage: Equatable {
    /// Tell me when this port of yours becomes invalid.
    case watch(UInt64)
    /// This port of mine is invalid.
    case invalidated(UInt64)
    /// This request of yours will have no reply.
    case unanswered(UInt64)
    /// This request of yours has not been handled, and will not be.
    case refused(UInt64)
    /// This request of mine needs no reply any more.
    case cancelled(UInt64)
    /// This port of mine has taken this number of your bytes.
    case credit(UInt64, bytes: UInt64)
    /// Tell me how many messages you have sent to this port of mine.
    case count(UInt64)
    /// I have sent this number of messages to this port of yours.
    case sent(UInt64, count: UInt64)
    /// This port of mine has taken everything before this probe.
    case drained(UInt64, probe: UInt64)
    /// A drain probe is on its way to this port of yours, from which perhaps nobody takes.
    case probed(UInt64)
    /// Tell me about this port of yours.
    indirect case question(QuestionPacket)
    /// This port of mine has this name.
    case named(UInt64, String)
    /// This port of mine is about to end: send it nothing more, and tell me when it has taken all of yours.
    case finishing(UInt64)
    /// This port of yours has taken all messages of mine, and there will be no more. Answers `finishing`.
    case finished(UInt64)
    /// Give me a ring to this port of yours. The answer and the end of the ring have the number of the question.
    case wantsRing(UInt64, question: UInt64)
    /// Here is your ring to this port of mine. The descriptors of its memory and its bell come with the packet.
    case ring(UInt64, question: UInt64)
    /// There is no ring to this port of mine. Send by ZeroMQ.
    case noRing(UInt64, question: UInt64)
    /// I send nothing more by the ring to this port of yours.
    case ringClosed(UInt64, question: UInt64)
    /// I have a connection of ZeroMQ to this port of yours, or none any more. With one, a process that is stopped may have
    /// messages in its memory.
    case zeroMQ(UInt64, isOpen: Bool)
    /// Give me a socket for the descriptors of messages to this port of yours. The answer, the messages and the end of the
    /// socket have the number of the question, which nobody can guess.
    case wantsDescriptorSocket(UInt64, question: UInt64)
    /// Here is your socket to this port of mine, as the descriptor of the packet.
    case descriptorSocket(UInt64, question: UInt64)
    /// There is no socket for descriptors to this port of mine.
    case noDescriptorSocket(UInt64, question: UInt64)
    /// I have closed this socket to this port of yours, which has taken everything from it.
    case descriptorSocketClosed(UInt64, question: UInt64)
    /// This port of mine is about to move: wait with what you have for it, and tell me when it has taken all of yours, as
    /// after `finishing`. Then the port is invalid here, and the registry has its new home, or it has stayed.
    case moving(UInt64)
    /// This port of mine has not moved.
    case stayed(UInt64)
    /// This request of yours has gone with this port, which was mine.
    case requestMoved(UInt64, request: UInt64)
    /// Has this request of mine come with this port of yours from another process? Answered by `requestIsHere`,
    /// `unanswered` or `failed`, or by `invalidated` when the port has moved on. Asked again on each connection.
    case hasRequest(UInt64, request: UInt64)
    /// This request of yours has come with this port of mine.
    case requestIsHere(UInt64, request: UInt64)
    /// This request of yours will have no reply, for this reason. Only for a process that takes reasons.
    case failed(UInt64, reason: String)

    static let largestSize = QuestionPacket.largestSize
    private static let (namedKind, failedKind): (UInt8, UInt8) = (14, 29)
    private static let longestName = 255
    static let longestReason = 512

    /// Whether an asker waits for the packet, which nobody tells again: it waits for the next connection.
    var isAwaited: Bool {
        switch self {
        case .unanswered, .refused, .requestMoved, .requestIsHere, .failed: true
        default: false
        }
    }

    init?(_ bytes: UnsafeRawBufferPointer) {
        if let question = QuestionPacket(bytes) {
            self = .question(question)
            return
        }
        if let kind = bytes.first, kind == Self.namedKind || kind == Self.failedKind {
            let longest = kind == Self.namedKind ? Self.longestName : Self.longestReason
            guard (10...9 + longest).contains(bytes.count),
                let text = String(validating: bytes[9...], as: UTF8.self), !text.utf8.contains(0)
            else { return nil }
            let number: UInt64 = bytes.little(at: 1)
            self = kind == Self.namedKind ? .named(number, text) : .failed(number, reason: text)
            return
        }
        let fields = (bytes.count - 1) / 8
        guard (1...2).contains(fields), bytes.count == 1 + 8 * fields else { return nil }
        func field(_ index: Int) -> UInt64 { bytes.little(at: 1 + 8 * index) }
        switch (bytes[0], fields) {
        case (1, 1): self = .watch(field(0))
        case (2, 1): self = .invalidated(field(0))
        case (3, 1): self = .unanswered(field(0))
        case (4, 2): self = .credit(field(0), bytes: field(1))
        case (5, 1): self = .count(field(0))
        case (6, 2): self = .sent(field(0), count: field(1))
        case (7, 2): self = .drained(field(0), probe: field(1))
        case (8, 1): self = .probed(field(0))
        case (9, 1): self = .refused(field(0))
        case (10, 1): self = .cancelled(field(0))
        case (11, 1): self = .finishing(field(0))
        case (12, 1): self = .finished(field(0))
        case (15, 2): self = .wantsRing(field(0), question: field(1))
        case (16, 2): self = .ring(field(0), question: field(1))
        case (17, 2): self = .noRing(field(0), question: field(1))
        case (18, 2): self = .ringClosed(field(0), question: field(1))
        case (20, 2): self = .wantsDescriptorSocket(field(0), question: field(1))
        case (21, 2): self = .descriptorSocket(field(0), question: field(1))
        case (22, 2): self = .noDescriptorSocket(field(0), question: field(1))
        case (23, 2): self = .descriptorSocketClosed(field(0), question: field(1))
        case (24, 1): self = .moving(field(0))
        case (25, 1): self = .stayed(field(0))
        case (26, 2): self = .requestMoved(field(0), request: field(1))
        case (27, 2): self = .hasRequest(field(0), request: field(1))
        case (28, 2): self = .requestIsHere(field(0), request: field(1))
        case (30, 2) where field(1) <= 1: self = .zeroMQ(field(0), isOpen: field(1) == 1)
        default: return nil
        }
    }

    /// Writes into at least ``largestSize`` bytes, and returns the packet's size.
    func write(to bytes: UnsafeMutableRawBufferPointer) -> Int {
        if case .question(let question) = self { return question.write(to: bytes) }
        let (kind, fields): (UInt8, [UInt64]) =
            switch self {
            case .watch(let number): (1, [number])
            case .invalidated(let number): (2, [number])
            case .unanswered(let request): (3, [request])
            case .credit(let number, let taken): (4, [number, taken])
            case .count(let number): (5, [number])
            case .sent(let number, let count): (6, [number, count])
            case .drained(let number, let probe): (7, [number, probe])
            case .probed(let number): (8, [number])
            case .refused(let request): (9, [request])
            case .cancelled(let request): (10, [request])
            case .finishing(let number): (11, [number])
            case .finished(let number): (12, [number])
            case .wantsRing(let number, let question): (15, [number, question])
            case .ring(let number, let question): (16, [number, question])
            case .noRing(let number, let question): (17, [number, question])
            case .ringClosed(let number, let question): (18, [number, question])
            case .wantsDescriptorSocket(let number, let question): (20, [number, question])
            case .descriptorSocket(let number, let question): (21, [number, question])
            case .noDescriptorSocket(let number, let question): (22, [number, question])
            case .descriptorSocketClosed(let number, let question): (23, [number, question])
            case .moving(let number): (24, [number])
            case .stayed(let number): (25, [number])
            case .requestMoved(let number, let request): (26, [number, request])
            case .hasRequest(let number, let request): (27, [number, request])
            case .requestIsHere(let number, let request): (28, [number, request])
            case .zeroMQ(let number, let isOpen): (30, [number, isOpen ? 1 : 0])
            case .question: (QuestionPacket.packet, [])
            case .named(let number, _): (Self.namedKind, [number])
            case .failed(let request, _): (Self.failedKind, [request])
            }
        bytes[0] = kind
        for (index, field) in fields.enumerated() { bytes.setLittle(field, at: 1 + 8 * index) }
        let written: Substring.UTF8View
        switch self {
        case .named(_, let name): written = name.utf8.prefix(Self.longestName)
        case .failed(_, let reason): written = reason.utf8.prefix(Self.longestReason)
        default: return 1 + 8 * fields.count
        }
        UnsafeMutableRawBufferPointer(rebasing: bytes[9...]).copyBytes(from: written)
        return 9 + written.count
    }
}
