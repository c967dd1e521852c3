import Ports

/// The messages of a stream, from the server to the asker's port for it, by their ids.
enum StreamMessage: UInt32 {
    /// Elements: in component 0 each with its size before it, a UInt32, little-endian; their attachments behind.
    case elements
    /// The stream is complete.
    case end
    /// The handler failed: the components are those of a `RequestFailure`.
    case failure
    /// From the asker to itself: the request has failed, and no more is to come.
    case requestFailed
}

/// Elements on their way out.
struct StreamBatch: Sendable {
    private(set) var bytes: [UInt8] = []
    private var attachments = Attachments()

    /// A batch of so many bytes takes no more elements. A larger one would not be faster.
    static let fullSize = 32 << 10

    var isEmpty: Bool { bytes.isEmpty }
    var isFull: Bool { bytes.count >= Self.fullSize }

    mutating func append(_ element: some Encodable, _ coder: any MessageCoder) throws {
        let start = bytes.count
        bytes.append(contentsOf: [0, 0, 0, 0])
        do {
            try coder.encode(element, into: &bytes, attachments: &attachments)
        } catch {
            bytes.removeSubrange(start...)
            throw error
        }
        let size = UInt32(clamping: bytes.count - start - 4)
        for byte in 0..<4 { bytes[start + byte] = UInt8(truncatingIfNeeded: size >> (8 * byte)) }
    }

    var message: MachPort.Message {
        MachPort.Message(id: StreamMessage.elements.rawValue, [.bytes(bytes)] + attachments.components)
    }
}

/// Elements that have come.
struct ReceivedBatch<Element: Decodable & Sendable>: Sendable {
    private let message: MachPort.Message
    private var offset = 0
    private var ready: [Element] = []
    private var next = 0

    /// So many elements are decoded at a time: small ones could need many times the room of their bytes.
    private static var chunk: Int { 64 }

    init(_ message: MachPort.Message) { self.message = message }

    /// The next element; nil when all were taken.
    /// - Throws: `DecodingError`.
    mutating func popFirst(_ coder: any MessageCoder) throws -> Element? {
        if next == ready.count { try decode(coder) }
        guard next < ready.count else { return nil }
        defer { next += 1 }
        return ready[next]
    }

    private mutating func decode(_ coder: any MessageCoder) throws {
        ready.removeAll(keepingCapacity: true)
        next = 0
        let attachments = Attachments(of: message)
        _ = try message.withBytes { bytes in
            while ready.count < Self.chunk, offset < bytes.byteCount {
                guard offset + 4 <= bytes.byteCount else { throw Self.malformed }
                let size = Int(UInt32(littleEndian: bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt32.self)))
                guard size <= bytes.byteCount - offset - 4 else { throw Self.malformed }
                let element = bytes.extracting(offset + 4..<offset + 4 + size)
                ready.append(try coder.decode(Element.self, from: element, attachments: attachments))
                offset += 4 + size
            }
        }
    }

    private static var malformed: DecodingError {
        .dataCorrupted(.init(codingPath: [], debugDescription: "the sizes of a stream's elements do not add up"))
    }
}
