/// A right in a message. Channels are the only rights; a message needs to know nothing of them.
protocol MessageRight: AnyObject, Sendable, CustomStringConvertible {}

/// A message that stays in its runtime. The port gets what the sender has given, without a wire format.
struct LocalMessage: @unchecked Sendable {
    // Sound: a message does not change after it is made, but for the link, which belongs to the queue.

    /// The fields, and behind them the bytes of a sole component, so that the message costs one allocation.
    private final class Storage: ManagedBuffer<Fields, UInt8> {}

    private struct Fields {
        var kind = Wire.Kind.message
        var id: UInt32
        var request: UInt64 = 0
        var content: Content
        var replyRight: (any MessageRight)?
        var size: Int
        /// The bytes that have room behind the fields; 0 for a message that is not used again.
        var capacity = 0
        var link: UInt = 0
    }

    private enum Content {
        /// One component, behind the fields.
        case bytes(count: Int)
        /// Handed over as they are.
        case components([Component])
    }

    enum Component: Sendable {
        case bytes([UInt8])
        case port(any MessageRight)
    }

    private var storage: Storage

    /// The fields in place: `header` would check each access for exclusivity.
    private var fields: UnsafeMutablePointer<Fields> { storage.withUnsafeMutablePointerToHeader { $0 } }

    /// Makes a message of one component, whose bytes are copied.
    ///
    /// - Parameters:
    ///   - replyRight: The right to the port for the answer.
    ///   - size: The size that the message would have as a frame. Limits count it.
    ///   - pool: Where to look for a used message.
    init(id: UInt32, bytes: RawSpan, replyRight: (any MessageRight)?, size: Int, from pool: MessagePool) {
        let sizeClass = MessagePool.SizeClass(capacity: bytes.byteCount)
        let content = Content.bytes(count: bytes.byteCount)
        var isBusy = false
        if let sizeClass, let used = pool.take(sizeClass, &isBusy) {
            self = used
            fields.pointee.id = id
            fields.pointee.content = content
            fields.pointee.replyRight = replyRight
            fields.pointee.size = size
        } else {
            // What is made beside a pool that another sender looks through stays outside, or the pool would grow.
            let capacity = isBusy ? 0 : sizeClass?.capacity ?? 0
            let made = Storage.create(minimumCapacity: max(capacity, bytes.byteCount)) { _ in
                Fields(id: id, content: content, replyRight: replyRight, size: size, capacity: capacity)
            }
            storage = unsafeDowncast(made, to: Storage.self)
        }
        bytes.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress else { return }
            storage.withUnsafeMutablePointerToElements {
                UnsafeMutableRawPointer($0).copyMemory(from: start, byteCount: bytes.count)
            }
        }
    }

    /// Makes a message of any components, which are not copied.
    init(
        kind: Wire.Kind, id: UInt32, request: UInt64, components: [Component], replyRight: (any MessageRight)?,
        size: Int
    ) {
        let made = Storage.create(minimumCapacity: 0) { _ in
            Fields(
                kind: kind, id: id, request: request, content: .components(components), replyRight: replyRight,
                size: size)
        }
        storage = unsafeDowncast(made, to: Storage.self)
    }

    var kind: Wire.Kind { fields.pointee.kind }
    var id: UInt32 { fields.pointee.id }
    /// The number of a request or a reply.
    var request: UInt64 { fields.pointee.request }
    var replyRight: (any MessageRight)? { fields.pointee.replyRight }
    var size: Int { fields.pointee.size }
    /// The bytes that have room behind the fields; 0 for a message that is not used again.
    var capacity: Int { fields.pointee.capacity }

    var components: [Component] {
        switch fields.pointee.content {
        case .components(let components): components
        case .bytes(let count):
            [storage.withUnsafeMutablePointerToElements { .bytes(Array(UnsafeBufferPointer(start: $0, count: count))) }]
        }
    }

    /// The text for each component in a description of the message.
    var componentDescriptions: [String] {
        switch fields.pointee.content {
        case .bytes(let count): ["\(count) bytes"]
        case .components(let components):
            components.map { component in
                switch component {
                case .bytes(let bytes): "\(bytes.count) bytes"
                case .port(let right): right.description
                }
            }
        }
    }

    /// Lets `body` read a component of bytes in place.
    func readBytes(ofComponent index: Int, _ body: (UnsafeRawBufferPointer) -> Void) {
        switch fields.pointee.content {
        case .bytes(let count):
            guard index == 0 else { return }
            storage.withUnsafeMutablePointerToElements { body(UnsafeRawBufferPointer(start: $0, count: count)) }
        case .components(let components):
            guard components.indices.contains(index), case .bytes(let bytes) = components[index] else { return }
            bytes.withUnsafeBytes(body)
        }
    }
}

extension LocalMessage {
    /// Drops what the message holds.
    ///
    /// - Returns: Whether the message may be used again: nobody else has it.
    mutating func empty() -> Bool {
        guard capacity > 0, isKnownUniquelyReferenced(&storage) else { return false }
        fields.pointee.replyRight = nil
        return true
    }
}

// A message in a queue's list: an address, which keeps the message.
extension LocalMessage {
    /// Returns the address of the message, and keeps the message until ``init(released:)``.
    func retained() -> UInt { UInt(bitPattern: Unmanaged.passRetained(storage).toOpaque()) }

    /// The message that ``retained()`` has kept; nil for address 0.
    init?(released address: UInt) {
        guard let pointer = UnsafeRawPointer(bitPattern: address) else { return nil }
        storage = Unmanaged<Storage>.fromOpaque(pointer).takeRetainedValue()
    }

    /// The address of another message of the list; 0 for none.
    var link: UInt {
        get { fields.pointee.link }
        nonmutating set { fields.pointee.link = newValue }
    }

    /// Replaces the link of the message at an address, and returns the former link.
    static func relink(_ address: UInt, to link: UInt) -> UInt {
        guard let pointer = UnsafeRawPointer(bitPattern: address) else { return 0 }
        return Unmanaged<Storage>.fromOpaque(pointer)._withUnsafeGuaranteedRef { storage in
            storage.withUnsafeMutablePointerToHeader { fields in
                defer { fields.pointee.link = link }
                return fields.pointee.link
            }
        }
    }
}
