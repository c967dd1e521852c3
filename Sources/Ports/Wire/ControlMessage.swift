// The packets of a control connection: small, on one SEQPACKET socket, little-endian.
//
//     hello        "SPRT", major UInt8, 3 zero bytes, process UInt128, origin UInt32, 4 zero bytes
//     watch        1 UInt8, number UInt64: tell me when this port of yours becomes invalid
//     invalidated  2 UInt8, number UInt64: this port of mine is invalid
//     unanswered   3 UInt8, request UInt64: this request of yours will have no reply
//     credit       4 UInt8, number UInt64, bytes UInt64: this port of mine has taken so many bytes of yours
//     count        5 UInt8, number UInt64: tell me how many messages you have sent to this port of mine
//     sent         6 UInt8, number UInt64, count UInt64: I have sent so many messages to this port of yours
//     ask          7 UInt8, query UInt64, number UInt64: tell me this port's statistics
//     statistics   8 UInt8, query UInt64, received UInt64, waiting UInt64: the answer to "ask"
//     drained      9 UInt8, number UInt64, probe UInt64: this port of mine has taken everything before this probe

enum ControlMessage: Equatable {
    case watch(UInt64)
    case invalidated(UInt64)
    case unanswered(UInt64)
    case credit(UInt64, bytes: UInt64)
    case count(UInt64)
    case sent(UInt64, count: UInt64)
    case ask(query: UInt64, UInt64)
    case statistics(query: UInt64, received: UInt64, waiting: UInt64)
    case drained(UInt64, probe: UInt64)

    static let largestSize = 25

    init?(_ bytes: UnsafeRawBufferPointer) {
        let fields = (bytes.count - 1) / 8
        guard (1...3).contains(fields), bytes.count == 1 + 8 * fields else { return nil }
        func field(_ index: Int) -> UInt64 { bytes.little(at: 1 + 8 * index) }
        switch (bytes[0], fields) {
        case (1, 1): self = .watch(field(0))
        case (2, 1): self = .invalidated(field(0))
        case (3, 1): self = .unanswered(field(0))
        case (4, 2): self = .credit(field(0), bytes: field(1))
        case (5, 1): self = .count(field(0))
        case (6, 2): self = .sent(field(0), count: field(1))
        case (7, 2): self = .ask(query: field(0), field(1))
        case (8, 3): self = .statistics(query: field(0), received: field(1), waiting: field(2))
        case (9, 2): self = .drained(field(0), probe: field(1))
        default: return nil
        }
    }

    /// - Parameter bytes: At least ``largestSize`` bytes.
    /// - Returns: The packet's size in bytes.
    func write(to bytes: UnsafeMutableRawBufferPointer) -> Int {
        let (kind, fields): (UInt8, [UInt64]) =
            switch self {
            case .watch(let number): (1, [number])
            case .invalidated(let number): (2, [number])
            case .unanswered(let request): (3, [request])
            case .credit(let number, let taken): (4, [number, taken])
            case .count(let number): (5, [number])
            case .sent(let number, let count): (6, [number, count])
            case .ask(let query, let number): (7, [query, number])
            case .statistics(let query, let received, let waiting): (8, [query, received, waiting])
            case .drained(let number, let probe): (9, [number, probe])
            }
        bytes[0] = kind
        for (index, field) in fields.enumerated() { bytes.setLittle(field, at: 1 + 8 * index) }
        return 1 + 8 * fields.count
    }
}
