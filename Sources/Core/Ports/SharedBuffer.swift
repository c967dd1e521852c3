/// Memory that any number of processes read and write at the same time, such as a frame buffer.
///
/// **Another process may write while this one reads**, also a part of what is being read, and a hostile one may at any
/// time. Copy what is to be checked, and then check the copy. To say when the bytes may be read is up to the processes,
/// for example by a message. Use ``SharedMemory`` for what nobody changes any more.
///
/// The memory lives until the last process has dropped it. Each object takes a descriptor. Any thread may call all
/// methods. The corresponding functions of XPC are `xpc_shmem_create` and `xpc_shmem_map`.
public final class SharedBuffer: Sendable {
    let mapped: MappedMemory

    /// The number of bytes, 1 or more.
    public var byteCount: Int { mapped.byteCount }

    /// Makes memory whose bytes are 0. All its pages are taken from the system now.
    /// - Parameter byteCount: The number of bytes, from 1 to 2³¹ − 1.
    /// - Throws: ``PortError``: `invalidLimit`, `outOfDescriptors`, or `transport` when no memory or address space is
    ///   left.
    public init(byteCount: Int) throws(PortError) { mapped = try .make(byteCount, mayFreeze: false) }

    /// Maps the memory that a message has brought.
    /// - Throws: ``PortError``: `untrustedMemory` when somebody can still change the number of bytes; as
    ///   ``MessageDescriptor/number`` without a descriptor; `outOfDescriptors`; `transport` when no address space is left.
    public init(_ descriptor: MessageDescriptor) throws(PortError) { mapped = try descriptor.mapWritable() }

    /// Makes a descriptor of the memory, for a message. Any number of messages may carry one.
    /// - Throws: ``PortError`` when no descriptor is left.
    public func makeDescriptor() throws(PortError) -> MessageDescriptor { try .init(of: mapped) }

    /// Lets `body` read and write the bytes in place. Any number of threads and processes may do so at a time; no lock is
    /// taken.
    public func withUnsafeMutableBytes<R, E: Error>(
        _ body: (UnsafeMutableRawBufferPointer) throws(E) -> R
    ) throws(E) -> R {
        try body(UnsafeMutableRawBufferPointer(start: mapped.start, count: mapped.byteCount))
    }
}

extension SharedBuffer: Hashable {
    /// Whether both are the same object.
    public static func == (left: SharedBuffer, right: SharedBuffer) -> Bool { left === right }

    /// Hashes the object's identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
