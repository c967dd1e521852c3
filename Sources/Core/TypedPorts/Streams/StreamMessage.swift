import Ports

/// The ids of the messages of a stream, which the server sends to the asker's port for the stream.
enum StreamMessage: UInt32 {
    /// A batch of elements. Component 0 has the encoded elements, each after its size as a little-endian UInt32. The
    /// attachments are the components after it.
    case elements
    /// The stream is complete.
    case end
    /// The handler failed. The message has the components of a `RequestFailure`.
    case failure
    /// The request has ended. The asker sends this message to itself.
    case requestEnded

    /// The message that ends a stream.
    static func last(_ error: (any Error)?) -> MachPort.Message {
        guard let error else { return MachPort.Message(id: end.rawValue) }
        let failure = error as? RequestFailure ?? RequestFailure(String(describing: error))
        return MachPort.Message(id: Self.failure.rawValue, failure.components.map { .bytes($0) })
    }
}

/// Elements that the server sends in one message.
struct StreamBatch: Sendable {
    private var bytes: [UInt8] = []
    private var attachments = Attachments()
    /// Nil before the first element.
    private var elements: ElementCoder?
    private var attached = (count: 0, bytes: 0)

    /// A batch of this size in bytes, or with this number of attachments, takes no more elements. A larger one would
    /// not be faster.
    private static let (fullSize, fullCount) = (32 << 10, 256)

    var isEmpty: Bool { bytes.isEmpty }
    var isFull: Bool { bytes.count + attached.bytes >= Self.fullSize || attached.count >= Self.fullCount }

    /// Appends an element, unless the message would be larger than the limit, in bytes. After an error the batch is as
    /// before.
    mutating func append(_ element: some Encodable, _ coder: any MessageCoder, limit: Int = .max) throws {
        if elements == nil {
            attachments.makeTable()
            elements = ElementCoder(coder, attachments)
        }
        let start = bytes.count
        for _ in 0..<4 { bytes.append(0) }
        do {
            try elements?.encode(element, into: &bytes)
            let added = attachments.size(from: attached.count)
            let size = bytes.count + attached.bytes + added.bytes
            guard size <= limit else {
                throw RequestFailure("an element of the stream is too large: a message may have \(limit) bytes")
            }
            attached = (attached.count + added.count, attached.bytes + added.bytes)
        } catch {
            bytes.removeSubrange(start...)
            attachments.removeAll(from: attached.count)
            throw error
        }
        let size = UInt32(clamping: bytes.count - start - 4)
        for byte in 0..<4 { bytes[start + byte] = UInt8(truncatingIfNeeded: size >> (8 * byte)) }
    }

    var message: MachPort.Message {
        MachPort.Message(id: StreamMessage.elements.rawValue, bytes, attachments)
    }
}

/// Elements that the asker has received in one message.
struct ReceivedBatch<Element: Decodable & Sendable>: Sendable {
    private let message: MachPort.Message
    /// Nil before the first element.
    private var elements: ElementCoder?
    private var offset = 0
    private var ready: [Element] = []
    private var next = 0
    /// Why the element behind the decoded ones cannot be decoded.
    private var failure: (any Error)?

    /// The number of elements that are decoded at a time. It is bounded, because small elements may need many times the
    /// memory of their bytes.
    private static var chunk: Int { 64 }

    init(_ message: MachPort.Message) { self.message = message }

    /// Whether the next element is decoded.
    var hasReady: Bool { next < ready.count }

    /// The next element, which is decoded.
    mutating func popReady() -> Element? {
        defer { next += 1 }
        return ready[next]
    }

    /// The next element; nil when all were taken.
    /// - Throws: `DecodingError`.
    mutating func popFirst(_ coder: any MessageCoder) throws -> Element? {
        if !hasReady, failure == nil { decode(coder) }
        if hasReady { return popReady() }
        if let failure { throw failure }
        return nil
    }

    private mutating func decode(_ coder: any MessageCoder) {
        ready.removeAll(keepingCapacity: true)
        next = 0
        var elements = elements.take() ?? ElementCoder(coder, Attachments(of: message))
        defer { self.elements = elements }
        do {
            _ = try message.withBytes { bytes in
                while ready.count < Self.chunk, offset < bytes.byteCount {
                    guard offset + 4 <= bytes.byteCount else { throw Self.malformed }
                    let size = bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt32.self)
                    let (start, end) = (offset + 4, offset + 4 + Int(UInt32(littleEndian: size)))
                    guard end <= bytes.byteCount else { throw Self.malformed }
                    ready.append(try elements.decode(Element.self, from: bytes.extracting(start..<end)))
                    offset = end
                }
            }
        } catch {
            failure = error
        }
    }

    private static var malformed: DecodingError {
        .dataCorrupted(.init(codingPath: [], debugDescription: "the sizes of a stream's elements do not add up"))
    }
}
