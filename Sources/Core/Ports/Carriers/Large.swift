import CRunLoopShims
import ZeroMQ

/// A message in memory of its own, which a record of a ring announces: its number and its size, 64 bits each.
enum Large {
    static let recordSize = 16

    static func write(_ number: UInt64, _ size: Int, to start: UnsafeMutableRawPointer) {
        start.storeBytes(of: number, as: UInt64.self)
        start.storeBytes(of: UInt64(size), toByteOffset: 8, as: UInt64.self)
    }

    /// Reads a record that may be a hostile peer's.
    static func read(_ bytes: UnsafeRawBufferPointer, limit: Int) -> (number: UInt64, size: Int)? {
        guard bytes.count == recordSize else { return nil }
        let (number, size) = (bytes.load(as: UInt64.self), bytes.load(fromByteOffset: 8, as: UInt64.self))
        return size <= UInt64(limit) ? (number, Int(size)) : nil
    }

    /// Makes memory with a frame in it; nil without memory.
    static func make(_ frame: borrowing ZeroMQFrame) -> OwnedDescriptor? {
        let number = crl_memory_make(UInt64(frame.count), false)
        guard number >= 0 else { return nil }
        let descriptor = OwnedDescriptor(number)
        // Not mapped, because the address space may be limited.
        let isWritten = frame.withUnsafeBytes { crl_memory_write(number, $0.baseAddress, UInt64($0.count)) }
        return isWritten ? descriptor : nil
    }

    /// Copies the message into a frame of its size.
    /// - Returns: False when the memory is not what the record says.
    static func read(_ descriptor: OwnedDescriptor, into frame: inout ZeroMQFrame) -> Bool {
        var isWhole = false
        // Not mapped, because a read of pages without memory would get a signal.
        frame.withUnsafeMutableBytes {
            isWhole = crl_memory_read(descriptor.number, $0.baseAddress, UInt64($0.count))
        }
        return isWhole
    }
}
