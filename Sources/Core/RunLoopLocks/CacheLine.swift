/// A value on a cache line of its own.
///
/// Each write to a line makes the other processors fetch the line again, so a field that one thread writes often must
/// not share a line with fields that other threads only read. Otherwise the allocator decides which fields do.
public struct CacheLine<Value: ~Copyable & Sendable>: ~Copyable, @unchecked Sendable {
    // Sound: threads share the value by borrowing only, and it is Sendable; `exchange` is for one thread's values.
    @usableFromInline let memory: UnsafeMutablePointer<Value>

    /// Puts a value on a line.
    @inlinable public init(_ value: consuming sending Value) {
        // Whole lines: the allocator would give the rest of the last line to others.
        memory = UnsafeMutableRawPointer.allocate(byteCount: (MemoryLayout<Value>.size + 63) / 64 * 64, alignment: 64)
            .bindMemory(to: Value.self, capacity: 1)
        memory.initialize(to: value)
    }

    @inlinable deinit {
        memory.deinitialize(count: 1)
        UnsafeMutableRawPointer(memory).deallocate()
    }

    /// The value, in place.
    @inlinable public var value: Value {
        @inline(__always) _read { yield memory.pointee }
    }

    /// Puts a new value in, and returns the old one. Only for a value that a single thread uses.
    @inlinable @inline(__always)
    public func exchange(_ value: consuming Value) -> Value {
        swap(&memory.pointee, &value)
        return value
    }
}
