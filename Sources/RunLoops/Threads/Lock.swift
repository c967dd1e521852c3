import CRunLoopShims

/// A value behind a lock that whoever comes first gets.
///
/// The standard library's `Mutex` is handed over by the kernel to the thread that has waited longest, so that under
/// contention each locking costs a switch of threads: four threads that queue blocks get 0.4 million a second into a
/// loop with that one, and many times as many with this one. It is for the locks that threads meet at; elsewhere
/// `Mutex` does. A thread that takes it twice waits for itself.
package struct Lock<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    // Sound: the word is used atomically, and the value by the thread that has set the word.
    private let word: UnsafeMutablePointer<UInt32>
    private let value: UnsafeMutablePointer<Value>

    package init(_ value: consuming sending Value) {
        // One line of the cache for both, and for nothing else: it travels between processors with each contended locking.
        let offset = max(MemoryLayout<Value>.alignment, MemoryLayout<UInt32>.stride)
        let memory = UnsafeMutableRawPointer.allocate(
            byteCount: offset + MemoryLayout<Value>.size, alignment: max(64, offset))
        word = memory.bindMemory(to: UInt32.self, capacity: 1)
        word.initialize(to: 0)
        self.value = (memory + offset).bindMemory(to: Value.self, capacity: 1)
        self.value.initialize(to: value)
    }

    deinit {
        value.deinitialize(count: 1)
        UnsafeMutableRawPointer(word).deallocate()
    }

    @inline(__always)
    package borrowing func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        crl_lock(word)
        defer { crl_unlock(word) }
        return try body(&value.pointee)
    }
}
