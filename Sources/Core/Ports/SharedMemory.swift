/// Memory that any number of processes read, and that nobody can change: it is written once, frozen, and then sent
/// without a copy, however large it is.
///
///     func numbers() throws -> MachPort.Message {
///         var draft = try SharedMemory.Draft(byteCount: 64 << 20)
///         draft.withMutableBytes { bytes in bytes.storeBytes(of: 42, as: UInt64.self) }
///         let memory = try draft.freeze()
///         return MachPort.Message(id: 1, [.descriptor(try memory.makeDescriptor())])
///     }
///
/// The receiver makes its object from the descriptor in the message. Typed requests and replies have it as a property.
/// The memory lives until the last process has dropped it, also when its maker has ended. Each object takes a
/// descriptor. Any thread may call all methods. The corresponding functions of XPC are `xpc_shmem_create` and
/// `xpc_shmem_map`; Mach calls such memory out-of-line.
public final class SharedMemory: Sendable {
    let mapped: MappedMemory

    /// The number of bytes, 1 or more.
    public var byteCount: Int { mapped.byteCount }

    init(_ mapped: MappedMemory) { self.mapped = mapped }

    /// Maps the memory that a message has brought. Nothing is copied.
    /// - Throws: ``PortError``: `untrustedMemory` when somebody can still change the bytes or their number; as
    ///   ``MessageDescriptor/number`` without a descriptor; `outOfDescriptors`; `transport` when no address space is left.
    public convenience init(_ descriptor: MessageDescriptor) throws(PortError) { self.init(try descriptor.mapFrozen()) }

    /// Makes frozen memory with a copy of the bytes.
    /// - Throws: ``PortError``: `invalidLimit` for no bytes or more than 2³¹ − 1, `outOfDescriptors`, or `transport` when
    ///   no memory or address space is left.
    public convenience init(copying bytes: RawSpan) throws(PortError) {
        self.init(try .frozen(copying: bytes))
    }

    /// Lets `body` read the bytes in place. Any number of threads may read at a time.
    public func withBytes<R, E: Error>(_ body: (RawSpan) throws(E) -> R) throws(E) -> R {
        let bytes = UnsafeRawBufferPointer(start: mapped.start, count: mapped.byteCount)
        return try body(RawSpan(_unsafeBytes: bytes))
    }

    /// Makes a descriptor of the memory, for a message. Any number of messages may carry one.
    /// - Throws: ``PortError`` when no descriptor is left.
    public func makeDescriptor() throws(PortError) -> MessageDescriptor { try .init(of: mapped) }

    /// Memory that is still being written, by this process alone.
    public struct Draft: ~Copyable {
        let mapped: MappedMemory

        /// Makes memory whose bytes are 0. All its pages are taken from the system now.
        /// - Parameter byteCount: The number of bytes, from 1 to 2³¹ − 1.
        /// - Throws: ``PortError``: `invalidLimit`, `outOfDescriptors`, or `transport` when no memory or address space is
        ///   left.
        public init(byteCount: Int) throws(PortError) { mapped = try .make(byteCount, mayFreeze: true) }

        /// Lets `body` read and write the bytes in place.
        public mutating func withMutableBytes<R, E: Error>(
            _ body: (inout MutableRawSpan) throws(E) -> R
        ) throws(E) -> R {
            var bytes = UnsafeMutableRawBufferPointer(start: mapped.start, count: mapped.byteCount).mutableBytes
            return try body(&bytes)
        }

        /// Ends the writing. The bytes stay where they are.
        /// - Throws: ``PortError``: `transport`.
        public consuming func freeze() throws(PortError) -> SharedMemory {
            try mapped.freeze()
            return SharedMemory(mapped)
        }
    }
}

extension SharedMemory: Hashable {
    /// Whether both are the same object.
    public static func == (left: SharedMemory, right: SharedMemory) -> Bool { left === right }

    /// Hashes the object's identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

extension MessageDescriptor {
    /// Lends the descriptor of frozen memory to any number of messages.
    package convenience init(lending memory: SharedMemory) { self.init(lending: memory.mapped) }

    /// The memory that is lent to messages; nil for a descriptor that travels once.
    package var lentMemory: SharedMemory? { memory.map { SharedMemory($0) } }
}
