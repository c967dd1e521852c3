import CRunLoopShims
import Glibc

/// A memory file as a whole, mapped until the last reference ends.
final class MappedMemory: @unchecked Sendable {
    // Sound: what is at `start` belongs to those who hold the object, and the rest does not change.

    let descriptor: OwnedDescriptor
    let start: UnsafeMutableRawPointer
    let byteCount: Int

    private init(_ descriptor: OwnedDescriptor, _ start: UnsafeMutableRawPointer, _ byteCount: Int) {
        (self.descriptor, self.start, self.byteCount) = (descriptor, start, byteCount)
    }

    /// Maps memory that nobody can change. The descriptor may be anything that a peer has handed over.
    static func frozen(_ descriptor: MessageDescriptor) throws(PortError) -> MappedMemory {
        let size = crl_memory_whole_size(try descriptor.number, true)
        guard size > 0 else { throw .untrustedMemory(reason: "somebody can still change it, or it is no memory") }
        let copy = try copy(descriptor)
        guard let start = crl_memory_map_frozen(copy.number, size) else { throw .last("mmap") }
        return MappedMemory(copy, UnsafeMutableRawPointer(mutating: start), Int(size))
    }

    /// Maps memory that all who have it may write. The descriptor may be anything that a peer has handed over.
    static func writable(_ descriptor: MessageDescriptor) throws(PortError) -> MappedMemory {
        let size = crl_memory_whole_size(try descriptor.number, false)
        guard size > 0 else { throw .untrustedMemory(reason: "somebody can still change its size, or it is no memory") }
        return try writable(try copy(descriptor), size)
    }

    private static func copy(_ descriptor: MessageDescriptor) throws(PortError) -> OwnedDescriptor {
        OwnedDescriptor(try MessageDescriptor(duplicating: descriptor.number).take())
    }

    private static func writable(_ descriptor: OwnedDescriptor, _ size: UInt64) throws(PortError) -> MappedMemory {
        guard let start = crl_memory_map(descriptor.number, size) else { throw .last("mmap") }
        return MappedMemory(descriptor, start, Int(size))
    }

    /// Makes memory that has all its pages, so that a write gets no signal.
    /// - Parameter mayFreeze: Whether ``freeze(_:)`` will be called.
    static func make(_ byteCount: Int, mayFreeze: Bool) throws(PortError) -> MappedMemory {
        try PortError.check("byteCount", byteCount, in: 1...Wire.largestMessage)
        let number = crl_memory_make(UInt64(byteCount), mayFreeze)
        guard number >= 0 else { throw .last("memfd_create") }
        let memory = try writable(OwnedDescriptor(number), UInt64(byteCount))
        guard crl_memory_populate(memory.start, UInt64(byteCount)) == 0 else { throw .last("madvise") }
        return memory
    }

    /// Lets nobody change the memory any more, which only this process has mapped.
    func freeze() throws(PortError) {
        guard crl_memory_freeze(descriptor.number, start, UInt64(byteCount)) else { throw .last("fcntl") }
    }

    /// A descriptor of the memory, for a message.
    func makeDescriptor() throws(PortError) -> MessageDescriptor { try .init(duplicating: descriptor.number) }

    deinit { crl_memory_unmap(start, UInt64(byteCount)) }
}
