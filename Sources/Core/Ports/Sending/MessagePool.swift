import RunLoopLocks
import Synchronization

/// Messages that a port's handlers are done with, for its senders to use again.
///
/// Without the pool, each message is allocated in one thread and freed in another, and the threads wait for each other
/// in the allocator.
struct MessagePool: ~Copyable, Sendable {
    /// The chains of messages by size, for the sender that has set ``isTaken``.
    private struct Chains: ~Copyable {
        var newest = InlineArray<11, UInt>(repeating: 0)
        var byteCount = 0

        /// Adds the message at an address.
        mutating func add(_ message: UInt) {
            guard let size = LocalMessage.sizeClass(of: message) else { return }
            byteCount += size.capacity
            LocalMessage.setLink(of: message, to: newest[size.index])
            newest[size.index] = message
        }

        /// Returns a message's address, or 0.
        @inline(__always)
        mutating func removeFirst(_ size: SizeClass) -> UInt {
            let message = newest[size.index]
            guard message != 0 else { return 0 }
            newest[size.index] = LocalMessage.link(of: message)
            byteCount -= size.capacity
            return message
        }
    }

    /// A capacity of 64 bytes times a power of two.
    struct SizeClass {
        private let shift: UInt8

        var index: Int { Int(shift) }
        @inline(__always) var capacity: Int { 64 << index }

        /// - Parameter capacity: The bytes to hold; nil when messages of that size are not kept.
        init?(capacity: Int) {
            shift = capacity <= 64 ? 0 : UInt8(truncatingIfNeeded: 58 - (capacity - 1).leadingZeroBitCount)
            if shift >= 11 { return nil }
        }
    }

    // Sound: only the thread that has set `isTaken` uses the chains.
    private nonisolated(unsafe) let chains: UnsafeMutablePointer<Chains>
    private let isTaken = CacheLine(Atomic(false))
    /// The newest message that takers have given back.
    private let returned = CacheLine(Atomic<UInt>(0))

    /// The most bytes that stay in the pool of a port without messages.
    static let mostIdle = 16_384
    /// Beyond this number of bytes, a message that is given back is freed.
    private static let most = 8 << 20

    init() {
        chains = .allocate(capacity: 1)
        chains.initialize(to: Chains())
    }

    deinit {
        collect()
        trim(to: 0)
        chains.deinitialize(count: 1)
        chains.deallocate()
    }

    /// Returns the address of a message to fill; 0 when there is none, or another sender is here.
    func take(_ size: SizeClass, _ isBusy: inout Bool) -> UInt {
        guard !isTaken.value.exchange(true, ordering: .acquiring) else {
            isBusy = true
            return 0
        }
        defer { isTaken.value.store(false, ordering: .releasing) }
        let message = chains.pointee.removeFirst(size)
        if message != 0 { return message }
        collect()
        return chains.pointee.removeFirst(size)
    }

    /// Takes messages that are not used any more.
    func give(_ batch: inout LocalQueue.Batch) { batch.move(to: returned.value) }

    /// Frees what a port without messages does not need.
    func trim() {
        guard !isTaken.value.exchange(true, ordering: .acquiring) else { return }
        defer { isTaken.value.store(false, ordering: .releasing) }
        collect()
        trim(to: Self.mostIdle)
    }

    private func collect() {
        var message = returned.value.exchange(0, ordering: .acquiring)
        while message != 0 {
            let next = LocalMessage.link(of: message)
            if chains.pointee.byteCount < Self.most {
                chains.pointee.add(message)
            } else {
                _ = LocalMessage(released: message)
            }
            message = next
        }
    }

    private func trim(to byteCount: Int) {
        for index in (0..<11).reversed() {
            let size = SizeClass(capacity: 64 << index)
            while chains.pointee.byteCount > byteCount, let size,
                LocalMessage(released: chains.pointee.removeFirst(size)) != nil
            {}
        }
    }
}
