/// A message in memory of this process: of a sender of the same runtime, which hands over what it has without a wire
/// format, or of one component of bytes, copied from a ring.
struct LocalMessage: @unchecked Sendable {
    // Sound: a message does not change after it is made, but for the link, which belongs to the queue.

    /// The fields, and behind them the bytes of a sole component, so that the message costs one allocation. The bytes
    /// are aligned for all numbers.
    private final class Storage: ManagedBuffer<Fields, UInt64> {}

    private enum Parts {
        /// One component of bytes, behind the fields.
        case behind
        /// Components that are handed over and not copied. One needs no array.
        case one(Component)
        case several([Component])
    }

    private struct Fields {
        /// The address of another message in a chain.
        var link: UInt = 0
        var parts = Parts.behind
        var replyRight: SendChannel?
        var request: UInt64 = 0
        var size: UInt32
        var id: UInt32
        /// The bytes behind the fields.
        var byteCount: UInt32 = 0
        var kind = Wire.Kind.message
        /// The process that has sent the message; nil for this runtime.
        var sender: SenderCredentials?
        /// The size class of the room behind the fields; nil for a message that is not used again.
        var sizeClass: MessagePool.SizeClass?
    }

    enum Component: Sendable {
        case bytes([UInt8])
        case port(SendChannel)
        /// The port that hands over a port to receive from.
        case offer(SendChannel)
        case descriptor(MessageDescriptor)
    }

    private var storage: Storage

    /// The fields in place: `header` would check each access for exclusivity.
    private var fields: UnsafeMutablePointer<Fields> { storage.withUnsafeMutablePointerToHeader { $0 } }

    private var soleComponent: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(
            start: storage.withUnsafeMutablePointerToElements { $0 }, count: Int(fields.pointee.byteCount))
    }

    /// Copies the bytes of one component into a used message of the pool, or a new one. The size is that of a frame.
    init(
        id: UInt32, bytes: RawSpan, replyRight: SendChannel?, size: UInt32, sender: SenderCredentials? = nil,
        from pool: borrowing MessagePool
    ) {
        let made = Self.makeRetained(
            id: id, bytes: bytes, replyRight: replyRight, size: size, sender: sender, from: pool)
        storage = Unmanaged<Storage>.fromOpaque(made).takeRetainedValue()
    }

    /// The most bytes of a ring's message that is used again.
    private static let mostKeptOfRing = 4096

    /// Makes a message as ``init(id:bytes:replyRight:size:from:)`` does, and returns its address for
    /// ``init(released:)``.
    @inline(__always)
    static func makeRetained(
        id: UInt32, bytes: RawSpan, replyRight: SendChannel?, size: UInt32, sender: SenderCredentials? = nil,
        from pool: borrowing MessagePool
    ) -> UnsafeMutableRawPointer {
        let byteCount = bytes.byteCount
        // A large message of a ring is allocated and freed by the same thread, whose allocator has warm memory.
        let isKept = sender == nil || byteCount <= mostKeptOfRing
        let sizeClass = isKept ? MessagePool.SizeClass(capacity: byteCount) : nil
        var isBusy = false
        let unmanaged: Unmanaged<Storage>
        if let sizeClass, let used = UnsafeRawPointer(bitPattern: pool.take(sizeClass, &isBusy)) {
            unmanaged = .fromOpaque(used)
        } else {
            // A message that is made while another sender searches the pool stays outside the pool, which would grow
            // otherwise.
            let kept = isBusy ? nil : sizeClass
            let made = Storage.create(minimumCapacity: (max(kept?.capacity ?? 0, byteCount) + 7) / 8) { _ in
                Fields(size: size, id: id, sizeClass: kept)
            }
            unmanaged = .passRetained(unsafeDowncast(made, to: Storage.self))
        }
        unmanaged._withUnsafeGuaranteedRef { storage in
            storage.withUnsafeMutablePointers { fields, elements in
                fields.pointee.id = id
                fields.pointee.size = size
                fields.pointee.byteCount = UInt32(truncatingIfNeeded: byteCount)
                fields.pointee.sender = sender
                if let replyRight { fields.pointee.replyRight = replyRight }
                bytes.withUnsafeBytes { bytes in
                    guard let start = bytes.baseAddress else { return }
                    UnsafeMutableRawPointer(elements).copyMemory(from: start, byteCount: bytes.count)
                }
            }
        }
        return unmanaged.toOpaque()
    }

    /// Makes a message of any components, which are not copied.
    init(
        kind: Wire.Kind, id: UInt32, request: UInt64, components: [Component], replyRight: SendChannel?,
        size: UInt32, sender: SenderCredentials? = nil
    ) {
        self.init(kind: kind, id: id, request: request, parts: .several(components), replyRight: replyRight, size: size)
        fields.pointee.sender = sender
    }

    /// Makes a message of one component, which is not copied.
    init(
        kind: Wire.Kind, id: UInt32, request: UInt64, component: Component, replyRight: SendChannel?, size: UInt32
    ) {
        self.init(kind: kind, id: id, request: request, parts: .one(component), replyRight: replyRight, size: size)
    }

    private init(
        kind: Wire.Kind, id: UInt32, request: UInt64, parts: Parts, replyRight: SendChannel?, size: UInt32
    ) {
        let made = Storage.create(minimumCapacity: 0) { _ in
            Fields(parts: parts, replyRight: replyRight, request: request, size: size, id: id, kind: kind)
        }
        storage = unsafeDowncast(made, to: Storage.self)
    }

    /// The kind, the id, and the number of a request or a reply.
    var header: FrameHeader {
        FrameHeader(kind: fields.pointee.kind, id: fields.pointee.id, request: fields.pointee.request)
    }
    var replyRight: SendChannel? { fields.pointee.replyRight }
    /// The process that has sent the message; nil for this runtime.
    var sender: SenderCredentials? { fields.pointee.sender }
    /// The size that the message would have as a frame. Limits count it.
    var size: Int { Int(fields.pointee.size) }

    var componentCount: Int { if case .several(let components) = fields.pointee.parts { components.count } else { 1 } }

    var components: [Component] {
        switch fields.pointee.parts {
        case .behind: [.bytes(Array(soleComponent))]
        case .one(let component): [component]
        case .several(let components): components
        }
    }

    /// A component that was handed over; nil for bytes that were copied, and behind the last component.
    func component(_ index: Int) -> Component? {
        switch fields.pointee.parts {
        case .behind: nil
        case .one(let component): index == 0 ? component : nil
        case .several(let components): components.indices.contains(index) ? components[index] : nil
        }
    }

    /// Lets `body` read a component of bytes in place.
    @inline(__always) func readBytes(ofComponent index: Int, _ body: (UnsafeRawBufferPointer) -> Void) {
        if case .behind = fields.pointee.parts {
            if index == 0 { body(soleComponent) }
        } else if case .bytes(let bytes)? = component(index) {
            bytes.withUnsafeBytes(body)
        }
    }

    /// Drops the message's references.
    /// - Returns: Whether the message may be used again, because nobody else has it.
    mutating func empty() -> Bool {
        guard fields.pointee.sizeClass != nil, isKnownUniquelyReferenced(&storage) else { return false }
        if fields.pointee.replyRight != nil { fields.pointee.replyRight = nil }
        return true
    }
}

// A message in a chain is an address, which keeps the message.
extension LocalMessage {
    /// Returns the address of the message, and keeps the message until ``init(released:)``.
    func retained() -> UInt { UInt(bitPattern: Unmanaged.passRetained(storage).toOpaque()) }

    /// The message that ``retained()`` has kept; nil for address 0.
    init?(released address: UInt) {
        guard let pointer = UnsafeRawPointer(bitPattern: address) else { return nil }
        storage = Unmanaged<Storage>.fromOpaque(pointer).takeRetainedValue()
    }

    /// The link of the message at an address: the address of another message; 0 for none.
    static func link(of address: UInt) -> UInt { fields(at: address)?.pointee.link ?? 0 }
    static func setLink(of address: UInt, to link: UInt) { fields(at: address)?.pointee.link = link }
    static func sizeClass(of address: UInt) -> MessagePool.SizeClass? { fields(at: address)?.pointee.sizeClass }

    /// Without a retain and a release.
    @inline(__always)
    private static func fields(at address: UInt) -> UnsafeMutablePointer<Fields>? {
        guard let pointer = UnsafeRawPointer(bitPattern: address) else { return nil }
        return Unmanaged<Storage>.fromOpaque(pointer)._withUnsafeGuaranteedRef {
            $0.withUnsafeMutablePointerToHeader { $0 }
        }
    }
}
