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
    static func frozen(_ descriptor: Int32) throws(PortError) -> MappedMemory {
        let size = try frozenSize(descriptor)
        return try frozen(try copy(descriptor), size)
    }

    /// The size of memory that nobody can change.
    static func frozenSize(_ descriptor: Int32) throws(PortError) -> UInt64 {
        let size = crl_memory_whole_size(descriptor, true)
        guard size > 0 else { throw .untrustedMemory(reason: "somebody can still change it, or it is no memory") }
        return size
    }

    private static func frozen(_ descriptor: OwnedDescriptor, _ size: UInt64) throws(PortError) -> MappedMemory {
        guard let start = crl_memory_map_frozen(descriptor.number, size) else { throw .last("mmap") }
        return MappedMemory(descriptor, UnsafeMutableRawPointer(mutating: start), Int(size))
    }

    /// Makes memory of these bytes that nobody can change. It is written as a file, because pages that are mapped first
    /// are filled with zeros first.
    static func frozen(copying bytes: RawSpan) throws(PortError) -> MappedMemory {
        try PortError.check("byteCount", bytes.byteCount, in: 1...Wire.largestMessage)
        let file = try file(bytes.byteCount, mayFreeze: true)
        let isWritten = bytes.withUnsafeBytes { crl_memory_write(file.number, $0.baseAddress, UInt64($0.count)) }
        guard isWritten else { throw .last("pwrite") }
        guard crl_memory_seal(file.number) else { throw .last("fcntl") }
        return try frozen(file, UInt64(bytes.byteCount))
    }

    private static func file(_ byteCount: Int, mayFreeze: Bool) throws(PortError) -> OwnedDescriptor {
        let number = crl_memory_make(UInt64(byteCount), mayFreeze)
        guard number >= 0 else { throw .last("memfd_create") }
        return OwnedDescriptor(number)
    }

    /// Maps memory that all who have it may write. The descriptor may be anything that a peer has handed over.
    static func writable(_ descriptor: Int32) throws(PortError) -> MappedMemory {
        let size = crl_memory_whole_size(descriptor, false)
        guard size > 0 else { throw .untrustedMemory(reason: "somebody can still change its size, or it is no memory") }
        return try writable(try copy(descriptor), size)
    }

    private static func copy(_ descriptor: Int32) throws(PortError) -> OwnedDescriptor {
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { throw .last("fcntl") }
        return OwnedDescriptor(copy)
    }

    private static func writable(_ descriptor: OwnedDescriptor, _ size: UInt64) throws(PortError) -> MappedMemory {
        guard let start = crl_memory_map(descriptor.number, size) else { throw .last("mmap") }
        return MappedMemory(descriptor, start, Int(size))
    }

    /// Makes memory that has all its pages, so that a write gets no signal.
    /// - Parameter mayFreeze: Whether ``freeze(_:)`` will be called.
    static func make(_ byteCount: Int, mayFreeze: Bool) throws(PortError) -> MappedMemory {
        try PortError.check("byteCount", byteCount, in: 1...Wire.largestMessage)
        let memory = try writable(try file(byteCount, mayFreeze: mayFreeze), UInt64(byteCount))
        guard crl_memory_populate(memory.start, UInt64(byteCount)) == 0 else { throw .last("madvise") }
        return memory
    }

    /// Lets nobody change the memory any more, which only this process has mapped.
    func freeze() throws(PortError) {
        guard crl_memory_freeze(descriptor.number, start, UInt64(byteCount)) else { throw .last("fcntl") }
    }

    deinit { crl_memory_unmap(start, UInt64(byteCount)) }
}
