import Ports

/// What main and its workers say to each other.
enum Wire {
    /// Main to a worker: count this file. Components: its index, its path.
    static let count: UInt32 = 1
    /// A worker to main, from its own port: the outcome for a file. Components: its index, the numbers.
    static let counted: UInt32 = 2
    /// Main to a worker: there is nothing left to do.
    static let end: UInt32 = 3

    static func task(_ index: Int, _ path: [UInt8]) -> MachPort.Message {
        MachPort.Message(id: count, [numbers([UInt64(index)]), .bytes(path)])
    }

    static func result(
        _ index: Int, _ outcome: Result<Counts, IOError>, from worker: MachPort.SendRight
    ) -> MachPort.Message {
        let fields: [UInt64] =
            switch outcome {
            case .success(let counts): [0, counts.lines, counts.words, counts.bytes]
            case .failure(.notRegularFile): [1]
            case .failure(.system(let errno)): [2, UInt64(errno)]
            }
        return MachPort.Message(id: counted, [numbers([UInt64(index)]), numbers(fields)], replyPort: worker)
    }

    static func index(in message: MachPort.Message) -> Int? {
        numbers(in: message, component: 0).flatMap { $0.count == 1 ? Int(exactly: $0[0]) : nil }
    }

    static func path(in message: MachPort.Message) -> [UInt8]? {
        message.withBytes(ofComponent: 1) { $0.withUnsafeBytes { Array($0) } }
    }

    static func outcome(in message: MachPort.Message) -> Result<Counts, IOError>? {
        guard let fields = numbers(in: message, component: 1) else { return nil }
        switch (fields.first, fields.count) {
        case (0, 4): return .success(Counts(lines: fields[1], words: fields[2], bytes: fields[3]))
        case (1, 1): return .failure(.notRegularFile)
        case (2, 2): return .failure(.system(errno: Int32(truncatingIfNeeded: fields[1])))
        default: return nil
        }
    }

    private static func numbers(_ numbers: [UInt64]) -> MachPort.Message.Component {
        .bytes(numbers.flatMap { number in withUnsafeBytes(of: number) { Array($0) } })
    }

    private static func numbers(in message: MachPort.Message, component: Int) -> [UInt64]? {
        message.withBytes(ofComponent: component) { span in
            span.withUnsafeBytes { bytes in
                stride(from: 0, to: bytes.count - bytes.count % 8, by: 8).map {
                    bytes.loadUnaligned(fromByteOffset: $0, as: UInt64.self)
                }
            }
        }
    }
}
