/// A value in a line of the cache of its own.
///
/// A line travels between processors with each write. So what one thread writes over and over is kept away from what
/// others only read, or they fetch the line anew for each reading. Objects are 16 bytes apart: without this, it is chance
/// which fields share a line.
struct CacheLine<Value: ~Copyable & Sendable>: ~Copyable, @unchecked Sendable {
    // Sound: threads only borrow the value, which is Sendable, unless it is one thread's alone.
    private let memory: UnsafeMutablePointer<Value>

    static var size: Int { 64 }

    init(_ value: consuming sending Value) {
        // Whole lines: the allocator gives away what is left of one.
        let size = (max(MemoryLayout<Value>.size, 1) + Self.size - 1) / Self.size * Self.size
        memory = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: Self.size)
            .bindMemory(to: Value.self, capacity: 1)
        memory.initialize(to: value)
    }

    deinit {
        memory.deinitialize(count: 1)
        UnsafeMutableRawPointer(memory).deallocate()
    }

    var value: Value {
        @inline(__always) _read { yield memory.pointee }
    }

    /// Puts another value in, and gives out the former; for a value that one thread alone uses.
    @inline(__always)
    func exchange(_ value: consuming Value) -> Value {
        swap(&memory.pointee, &value)
        return value
    }
}
