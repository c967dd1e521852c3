import RunLoopLocks
import Synchronization

/// The messages of a port that its handlers are done with, for its senders to use again.
///
/// Without the pool each message is allocated in one thread and freed in another, and the threads wait for each other
/// in the allocator.
final class MessagePool: Sendable {
    /// The chains of messages by size, for the sender that has set ``isTaken``.
    private struct Chains: ~Copyable {
        var newest = InlineArray<7, UInt>(repeating: 0)
        var byteCount = 0

        mutating func add(_ message: LocalMessage) {
            guard let size = SizeClass(capacity: message.capacity) else { return }
            byteCount += size.capacity
            message.link = newest[size.index]
            newest[size.index] = message.retained()
        }

        mutating func removeFirst(_ size: SizeClass) -> LocalMessage? {
            guard let message = LocalMessage(released: newest[size.index]) else { return nil }
            newest[size.index] = message.link
            byteCount -= size.capacity
            return message
        }
    }

    /// A capacity of 64 bytes times a power of two.
    struct SizeClass {
        let index: Int

        var capacity: Int { 64 << index }

        /// - Parameter capacity: The bytes to hold; nil when messages of that size are not kept.
        init?(capacity: Int) {
            index = capacity <= 64 ? 0 : 58 - (capacity - 1).leadingZeroBitCount
            if index >= 7 { return nil }
        }
    }

    // Sound: only the thread that has set `isTaken` uses the chains.
    private nonisolated(unsafe) let chains: UnsafeMutablePointer<Chains>
    private let isTaken = CacheLine(Atomic(false))
    /// The newest message that takers have given back.
    private let returned = CacheLine(Atomic<UInt>(0))

    /// The most bytes that stay in the pool of a port without messages.
    private static let mostIdle = 4096

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

    /// Returns a message to fill; nil when there is none, or another sender is here.
    func take(_ size: SizeClass, _ isBusy: inout Bool) -> LocalMessage? {
        guard !isTaken.value.exchange(true, ordering: .acquiring) else {
            isBusy = true
            return nil
        }
        defer { isTaken.value.store(false, ordering: .releasing) }
        if let message = chains.pointee.removeFirst(size) { return message }
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
        var batch = LocalQueue.Batch(first: returned.value.exchange(0, ordering: .acquiring))
        while let message = batch.popFirst() { chains.pointee.add(message) }
    }

    private func trim(to byteCount: Int) {
        for index in (0..<7).reversed() {
            let size = SizeClass(capacity: 64 << index)
            while chains.pointee.byteCount > byteCount, let size, chains.pointee.removeFirst(size) != nil {}
        }
    }
}
