import CRunLoopShims
import Glibc
import RunLoops
import Synchronization

/// The memory of a ring, which two processes map: a head of atomic words, and records. Either process may be hostile, so
/// neither keeps in it anything that it needs to believe.
///
///     0     head         the offset behind the last record times 4, and the bits below; written by the sender, and by
///                        the receiver to set a bit
///     8     sent         the messages that the sender has sent to the port, on any way
///     16    published    the records that the sender has written
///     128   tail         the offset of the first record that waits, in units of 8, and in the upper half the number
///                        of records that were taken; written by the receiver
///     136   taken bytes  the size of all records that were taken; written by the receiver
///     256   room         1 << 32, and the number of taken records at which the sender wants to be woken
///     512   the records
///
/// A record is contiguous: its size and its ``Kind``, 32 bits each, its bytes, and up to 7 bytes without meaning. A record
/// of the kind `wrap` leads to the begin of the ring. A sender writes a record behind the head, and then moves the head.
struct RingMemory: @unchecked Sendable {
    // Sound: the words are used atomically; the sender writes only where no record is, and the receiver copies what it
    // reads before it looks at it.

    private let start: UnsafeMutableRawPointer
    /// The size of the ring.
    let size: Int

    enum Kind {
        static let message: UInt32 = 0
        static let wrap: UInt32 = 1
        /// The message is in memory of its own, which goes by the bell. The record has the message's size.
        static let large: UInt32 = 2
    }

    /// No taker looks at the ring, which is empty: the next sender rings the bell.
    static let closed: UInt64 = 1
    /// The receiver looks at the ring no more. The head stays what it is then, because the sender moves no head with this
    /// bit. So a later reader, the lender of the port, finds in the ring what was sent, and nothing else.
    static let ended: UInt64 = 2

    static let largest = 64 << 20
    private static let smallest = 1 << 20
    private static let headSize = 512

    private static func mapped(_ size: Int) -> UInt64 { UInt64(Self.headSize + size) }

    /// Maps the memory behind a descriptor, which may be anything that a peer has handed over.
    init?(_ descriptor: Int32) {
        guard let size = Self.size(of: descriptor), Self.hasAddressSpace(for: Self.mapped(size)),
            let start = crl_memory_map(descriptor, Self.mapped(size))
        else { return nil }
        (self.start, self.size) = (start, size)
    }

    private init(_ start: UnsafeMutableRawPointer, _ size: Int) { (self.start, self.size) = (start, size) }

    /// The size of the ring behind a descriptor; nil when that is no ring.
    private static func size(of descriptor: Int32) -> Int? {
        let mapped = crl_memory_size(descriptor)
        guard (Self.mapped(smallest)...Self.mapped(largest)).contains(mapped) else { return nil }
        let size = Int(mapped) - headSize
        return size % 4096 == 0 ? size : nil
    }

    /// Calls the closure with the words of the ring behind a descriptor, whose records are not mapped.
    /// - Returns: Nil when the descriptor leads to no ring, or no page of it can be mapped now.
    static func withWords<Result>(of descriptor: Int32, _ body: (RingMemory) -> Result) -> Result? {
        guard let size = size(of: descriptor), let start = crl_memory_map_begin(descriptor, UInt64(headSize)) else {
            return nil
        }
        defer { crl_memory_unmap(start, UInt64(headSize)) }
        return body(RingMemory(start, size))
    }

    /// Where a byte of the ring is in the file.
    static func offset(inRing offset: Int) -> UInt64 { UInt64(headSize + offset) }

    /// Makes memory for a ring, and maps it; nil where the process may not, or has no room for it. Less is made when the
    /// address space or the size of files is limited.
    static func make() -> (descriptor: OwnedDescriptor, memory: RingMemory)? {
        var size = Self.largest
        let limit = crl_memory_limit()
        while size > smallest, UInt64(size) > limit / 64 { size /= 4 }
        while size >= smallest {
            let descriptor = crl_memory_make(mapped(size), false)
            if descriptor >= 0 {
                let made = OwnedDescriptor(descriptor)
                if let memory = RingMemory(descriptor) { return (made, memory) }
            }
            size /= 4
        }
        return nil
    }

    /// Whether a limited address space is half free with a ring more, because heap and threads need it, too.
    private static func hasAddressSpace(for size: UInt64) -> Bool {
        let limit = crl_memory_limit()
        if limit == .max { return true }
        let pages = Descriptor.text(of: "/proc/self/statm").flatMap { UInt64($0.prefix { $0 != " " }) }
        return pages.map { $0 * UInt64(getpagesize()) + size <= limit / 2 } ?? false
    }

    /// Whether the receiver has ended the ring, and has taken all that was sent.
    var isOver: Bool {
        let head = head.pointee.load(ordering: .acquiring)
        return head & Self.ended != 0 && head >> 2 == (tail.pointee.load(ordering: .acquiring) & 0xFFFF_FFFF) * 8
    }

    func unmap() { crl_memory_unmap(start, Self.mapped(size)) }

    @inline(__always) private func word(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
        (start + offset).assumingMemoryBound(to: Atomic<UInt64>.self)
    }

    @inline(__always) var head: UnsafeMutablePointer<Atomic<UInt64>> { word(0) }
    @inline(__always) var sent: UnsafeMutablePointer<Atomic<UInt64>> { word(8) }
    @inline(__always) var published: UnsafeMutablePointer<Atomic<UInt64>> { word(16) }
    @inline(__always) var tail: UnsafeMutablePointer<Atomic<UInt64>> { word(128) }
    @inline(__always) var takenBytes: UnsafeMutablePointer<Atomic<UInt64>> { word(136) }
    @inline(__always) var room: UnsafeMutablePointer<Atomic<UInt64>> { word(256) }

    @inline(__always) var records: UnsafeMutableRawPointer { start + Self.headSize }

    /// The room that a record of a number of bytes takes.
    @inline(__always) static func room(for count: Int) -> Int { 8 + (count + 7) & ~7 }

    // MARK: Pages

    /// Gives the ring's bytes of a range memory.
    func populate(_ range: Range<Int>) -> Bool {
        let pages = pages(range.lowerBound + Self.headSize, range.upperBound + Self.headSize + 4095)
        return crl_memory_populate(start + pages.lowerBound, UInt64(pages.count)) == 0
    }

    /// Gives the memory of a range back.
    func release(_ range: Range<Int>) {
        let pages = pages(range.lowerBound + Self.headSize + 4095, range.upperBound + Self.headSize)
        if !pages.isEmpty { _ = crl_memory_release(start + pages.lowerBound, UInt64(pages.count)) }
    }

    private func pages(_ first: Int, _ last: Int) -> Range<Int> {
        let first = first & ~4095
        let end = min(last & ~4095, (Self.headSize + size + 4095) & ~4095)
        return first..<max(first, end)
    }
}
