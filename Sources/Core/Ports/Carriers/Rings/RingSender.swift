import Synchronization

/// The sender's end of a ring. The channel's lock guards it.
struct RingSender: ~Copyable, @unchecked Sendable {
    // Sound: one thread uses the memory's sending side at a time, because the value has one owner behind a lock.

    private let memory: RingMemory
    let bell: Bell
    /// The most records that may wait.
    private let queueLimit: UInt32
    /// The most bytes that may wait, beyond one record; 0: any number.
    private let byteLimit: Int

    /// Where the last record ends, and where the next one begins.
    private var (head, next) = (0, 0)
    var sent: UInt32 = 0
    private var sentBytes: UInt64 = 0
    /// The receiver's last words in the memory.
    private var (knownTail, knownTakenBytes) = (0, 0 as UInt64)
    var knownTaken: UInt32 = 0
    /// The ring has memory up to there.
    private(set) var populated = 0
    /// The numbers of the records that wait and whose messages have memory of their own.
    private var handedOver: [UInt32] = []
    /// Such messages wait for room beyond this number, because each takes memory, and counts against a limit of the user's.
    private static let mostHandedOver = 8
    /// Whether the receiver has ended the ring.
    private(set) var isEnded = false

    /// The ring begins again there when it can, so that a receiver that keeps up leaves the rest of the memory unused.
    static let soft = 256 << 10
    /// Larger records have memory of their own.
    var largestRecord: Int { memory.size / 4 }

    init(_ memory: RingMemory, _ bell: Bell, queueLimit: Int, byteLimit: Int) {
        (self.memory, self.bell) = (memory, bell)
        (self.queueLimit, self.byteLimit) = (UInt32(clamping: max(queueLimit, 1)), byteLimit)
    }

    deinit { memory.unmap() }

    enum Published {
        case queued
        /// The sender has to ring the bell.
        case opened
        /// The receiver has ended the ring before, and did not get the message.
        case ended
    }

    /// Returns where to write a record of a number of bytes. ``publish(_:kind:sentCount:)`` sends it.
    /// - Returns: Nil without room, or without memory.
    @inline(__always)
    mutating func reserve(_ count: Int, messageSize: Int) -> UnsafeMutableRawPointer? {
        let need = RingMemory.room(for: count)
        if !hasRoom(need, messageSize) {
            lookForRoom()
            if !hasRoom(need, messageSize) { return nil }
        }
        // With the place of a wrap record behind the record.
        let end = min(next + need + 8, memory.size)
        if end > populated, !populate(to: end) { return nil }
        return memory.records + next + 8
    }

    /// Chooses the place of the next record.
    @inline(__always)
    private mutating func hasRoom(_ need: Int, _ messageSize: Int) -> Bool {
        if sent &- knownTaken >= queueLimit { return false }
        if byteLimit > 0 {
            let inFlight = Int(clamping: sentBytes &- min(knownTakenBytes, sentBytes))
            if inFlight > 0, inFlight + messageSize > byteLimit { return false }
        }
        if head < knownTail {
            next = head
            return knownTail - head > need
        }
        let fits = memory.size - head > need || memory.size - head == need && knownTail > 0
        // The low part of the ring is in the caches.
        if knownTail > need, head >= Self.soft || !fits {
            next = 0
            return true
        }
        next = head
        return fits
    }

    /// Reads what the receiver has taken, and believes nothing that cannot be.
    private mutating func lookForRoom() {
        let tail = memory.tail.pointee.load(ordering: .sequentiallyConsistent)
        let offset = Int(tail & 0xFFFF_FFFF) * 8
        let taken = UInt32(truncatingIfNeeded: tail >> 32)
        guard offset < memory.size, sent &- taken <= sent &- knownTaken else { return }
        (knownTail, knownTaken) = (offset, taken)
        if byteLimit > 0 { knownTakenBytes = memory.takenBytes.pointee.load(ordering: .acquiring) }
    }

    private mutating func populate(to end: Int) -> Bool {
        // Twice as much each time: few calls, and little memory for few messages.
        let wanted = min(memory.size, max(end, populated * 2, 16 << 10))
        guard memory.populate(populated..<wanted) || memory.populate(populated..<end) else { return false }
        populated = wanted
        return true
    }

    /// Sends the record that was written where ``reserve(_:messageSize:)`` has said.
    @inline(__always)
    mutating func publish(
        _ count: Int, kind: UInt32 = RingMemory.Kind.message, messageSize: Int, sentCount: Int
    ) -> Published {
        if next != head {
            (memory.records + head).storeBytes(of: UInt64(RingMemory.Kind.wrap) << 32, as: UInt64.self)
        }
        (memory.records + next).storeBytes(
            of: UInt64(kind) << 32 | UInt64(UInt32(truncatingIfNeeded: count)), as: UInt64.self)
        let end = next + RingMemory.room(for: count)
        let newHead = end == memory.size ? 0 : end
        memory.sent.pointee.store(UInt64(sentCount), ordering: .relaxed)
        memory.published.pointee.store(UInt64(sent &+ 1), ordering: .relaxed)
        // Compared, not exchanged: the receiver's end stays in the head, and the head stays where it was. Another reader
        // would take a record behind it for one that was sent. The first attempt expects an open ring, the second one a
        // closed ring. The receiver clears no bit, so that a ring that is neither has ended.
        let wasOpen = moveHead(to: newHead, from: 0)
        guard wasOpen || moveHead(to: newHead, from: RingMemory.closed) else {
            isEnded = true
            return .ended
        }
        head = newHead
        sent &+= 1
        sentBytes &+= UInt64(messageSize)
        return wasOpen ? .queued : .opened
    }

    /// - Parameter flags: The bits that the head is expected to have.
    @inline(__always)
    private func moveHead(to newHead: Int, from flags: UInt64) -> Bool {
        memory.head.pointee.compareExchange(
            expected: UInt64(head) << 2 | flags, desired: UInt64(newHead) << 2, ordering: .acquiringAndReleasing
        ).exchanged
    }

    /// Whether a message may go in memory of its own. Such memory takes time, and goes to a receiver that has not ended the
    /// ring.
    mutating func mayHandOver() -> Bool {
        lookForRoom()
        noteEnd()
        if isEnded { return false }
        // A number may be billions of records old.
        handedOver.removeAll { sent &- $0 > sent &- knownTaken }
        return handedOver.count < Self.mostHandedOver
    }

    /// The next record announces such a message.
    mutating func noteHandOver() { handedOver.append(sent) }

    /// Asks the receiver to ring when half of what waits was taken. A sender asks before its last attempt.
    mutating func askForRoom() {
        lookForRoom()
        let half = knownTaken &+ (sent &- knownTaken &+ 1) / 2
        memory.room.pointee.store(1 << 32 | UInt64(half), ordering: .sequentiallyConsistent)
        lookForRoom()
        noteEnd()
    }

    private mutating func noteEnd() {
        if memory.head.pointee.load(ordering: .acquiring) & RingMemory.ended != 0 { isEnded = true }
    }

    /// The records that wait.
    mutating func waitingCount() -> Int {
        lookForRoom()
        return Int(sent &- knownTaken)
    }

    /// Gives back the memory of a peak, when nothing waits.
    /// - Returns: False when something waits, and the call has to come again.
    mutating func trim() -> Bool {
        guard populated > Self.soft else { return true }
        guard waitingCount() == 0, knownTail == head else { return false }
        // The page stays where a wrap record may be written.
        if head > Self.soft { memory.release(Self.soft..<head) }
        memory.release(max(Self.soft, head + 8)..<max(Self.soft, head + 8, populated))
        populated = Self.soft
        return true
    }
}
