import CRunLoopShims

/// A message in memory of its own. The memory goes by the ring's bell, ahead of the record, which has the message's size.
enum LargeRecord {
    /// No record is smaller.
    static let recordSize = 16

    static func write(_ size: Int, to start: UnsafeMutableRawPointer) {
        start.storeBytes(of: UInt64(size), as: UInt64.self)
        start.storeBytes(of: 0, toByteOffset: 8, as: UInt64.self)
    }

    /// Reads a record that may be a hostile peer's.
    static func read(_ bytes: UnsafeRawBufferPointer, limit: Int) -> Int? {
        guard bytes.count == recordSize else { return nil }
        let size = bytes.load(as: UInt64.self)
        return size <= UInt64(limit) ? Int(size) : nil
    }

    /// Makes memory with a frame in it; nil without memory.
    static func make(_ frame: borrowing Frame) -> OwnedDescriptor? {
        let number = crl_memory_make(UInt64(frame.count), false)
        guard number >= 0 else { return nil }
        let descriptor = OwnedDescriptor(number)
        // Not mapped, because the address space may be limited.
        let isWritten = frame.withUnsafeBytes { crl_memory_write(number, $0.baseAddress, UInt64($0.count)) }
        return isWritten ? descriptor : nil
    }

    /// Copies the message into a frame of its size.
    /// - Returns: False when the memory is not what the record says.
    static func read(_ descriptor: OwnedDescriptor, into frame: inout Frame) -> Bool {
        var isWhole = false
        // Not mapped, because a read of pages without memory would get a signal.
        frame.withUnsafeMutableBytes {
            isWhole = crl_memory_read(descriptor.number, $0.baseAddress, UInt64($0.count))
        }
        return isWhole
    }
}
