import CRunLoopShims
import DequeModule
import Synchronization

/// The receiver's end of a ring. The port's lock guards it.
final class RingReceiver: @unchecked Sendable {
    // Sound: the port's lock guards all that changes.

    private let memory: RingMemory
    let bell: Bell
    /// The process that sends.
    let peer: Incarnation
    /// The sender by the kernel's word.
    let sender: SenderCredentials
    private let queueLimit: UInt32
    private let messageLimit: Int
    /// The number of the peer's question for the ring.
    let question: UInt64

    @exclusivity(unchecked) private var (tail, knownHead) = (0, 0)
    /// No more records than this number are taken before the head is read again, because a sender of this library never
    /// has more waiting than the queue limit.
    @exclusivity(unchecked) private var mostTaken: UInt32 = 0
    @exclusivity(unchecked) var taken: UInt32 = 0
    @exclusivity(unchecked) private var takenBytes: UInt64 = 0
    /// Whether takers look at the ring.
    @exclusivity(unchecked) var isOpen = false
    /// How often the bell has rung since its bytes were read.
    @exclusivity(unchecked) private var unheard = 0
    /// The looks at the open ring that have found nothing, one after the other.
    @exclusivity(unchecked) var emptyLooks = 0
    /// Whether the ring ends when it is empty, because its sender is gone or sends no more.
    @exclusivity(unchecked) var isEnding = false
    /// The memory of messages whose records have not been taken, in their order; nil for memory that was lost on its way.
    private var memories: Deque<OwnedDescriptor?> = []
    /// The ring's number among those of its port.
    @exclusivity(unchecked) var order: UInt64 = 0
    /// The peer's ring before this one, as long as that has messages. They come first.
    @exclusivity(unchecked) var former: RingReceiver?
    /// Whether there was no memory for a copy of the first record.
    @exclusivity(unchecked) private var isBlocked = false
    /// Whether the sender cannot send any more, and what it has sent before is still to be taken.
    @exclusivity(unchecked) private(set) var isStopped = false
    /// Whether the receiver looks at the ring no more.
    @exclusivity(unchecked) private(set) var isEnded = false

    init(
        _ memory: RingMemory, _ bell: Bell, peer: Incarnation, sender: SenderCredentials, queueLimit: Int,
        messageLimit: Int = Wire.largestMessage, question: UInt64 = 0
    ) {
        (self.memory, self.bell, self.peer, self.sender) = (memory, bell, peer, sender)
        self.queueLimit = Self.limit(queueLimit)
        (self.messageLimit, self.question) = (messageLimit, question)
        memory.head.pointee.store(RingMemory.closed, ordering: .releasing)
    }

    deinit { memory.unmap() }

    /// As the sender has it.
    private static func limit(_ queueLimit: Int) -> UInt32 { UInt32(clamping: max(queueLimit, 1)) }

    /// The next message of a ring that was stopped and whose receiver takes nothing any more. The message stays
    /// there for the lender of the port. Messages in memory of their own are left out.
    func nextLeft() -> Copy {
        while !isEnded {
            switch look() {
            case .record(let record):
                guard record.kind == RingMemory.Kind.message else {
                    skip(record)
                    continue
                }
                guard let frame = copy(record) else { return .missing }
                skip(record)
                return .frame(frame)
            case .nothing: return .nothing
            case .broken:
                warnBroken()
                return .nothing
            }
        }
        return .nothing
    }

    /// The place of a reader that takes nothing.
    struct Place {
        fileprivate(set) var offset: Int
        fileprivate var taken: UInt32
        /// The messages before it that are in memory of their own.
        fileprivate var large = 0
    }

    /// The place of the first record.
    var place: Place { Place(offset: tail, taken: taken) }

    enum Copy: ~Copyable {
        case frame(Frame)
        case nothing
        /// There is no memory for a copy of the next message.
        case missing
    }

    /// Copies the message at a place of a ring that was stopped, and leaves it to those who take. Memory that was lost is left
    /// out.
    func copyNext(_ place: inout Place) -> Copy {
        let first = self.place
        defer { (tail, taken) = (first.offset, first.taken) }
        (tail, taken) = (place.offset, place.taken)
        while !isEnded, case .record(let record) = look() {
            guard let frame = copy(record, after: place.large) else { return .missing }
            skip(record)
            let large = place.large + (record.kind == RingMemory.Kind.large ? 1 : 0)
            place = Place(offset: tail, taken: taken, large: large)
            if frame.count > 0 { return .frame(frame) }
            warnLost()
        }
        return .nothing
    }

    private func skip(_ record: Record) {
        tail = record.end == memory.size ? 0 : record.end
        taken &+= 1
    }

    /// Takes what waits in a ring that was stopped, of which there are copies.
    func takeRest() {
        tail = knownHead
        memory.tail.pointee.store(UInt64(taken) << 32 | UInt64(tail / 8), ordering: .releasing)
    }

    /// Says that the ring ends, because its sender has written what no sender of this library writes.
    func warnBroken() { Self.warnBroken(of: sender) }

    static func warnBroken(of sender: SenderCredentials) {
        log.warning(
            about: .process(sender.pid), once: "ring",
            "dropped the ring of \(ProcessIdentity(pid: sender.pid)), which has written into it what no message is")
    }

    /// A record that waits. The sender may still change its bytes.
    struct Record {
        let kind: UInt32
        let bytes: UnsafeRawBufferPointer
        fileprivate let end: Int
    }

    enum Look {
        case record(Record)
        case nothing
        /// The sender has written what no sender of this library writes.
        case broken
    }

    /// Whether a record waits, or something else that a taker has to see.
    var hasRecord: Bool { !isBlocked && hasUntaken && !isHeldBack }

    /// Whether an earlier ring of the peer has a message for which there was no memory.
    private var isHeldBack: Bool { former.map { $0.isBlocked || $0.isHeldBack } ?? false }

    /// Whether a record waits, or something else, be it that it cannot be taken yet.
    var hasUntaken: Bool {
        !isEnded
            && (tail != knownHead
                || !isStopped && memory.head.pointee.load(ordering: .acquiring) >> 2 != UInt64(tail))
    }

    /// The bytes of the ring that wait to be taken; nil for a head that no sender of this library writes.
    var used: Int? {
        let head = isStopped ? knownHead : Int(truncatingIfNeeded: memory.head.pointee.load(ordering: .relaxed) >> 2)
        guard !isEnded else { return 0 }
        guard (0..<memory.size).contains(head) else { return nil }
        return head >= tail ? head - tail : memory.size - tail + head
    }

    var size: Int { memory.size }

    /// Notes the head, up to which records are taken.
    /// - Returns: False for a word that no sender of this library writes.
    @inline(__always)
    private func know(_ word: UInt64) -> Bool {
        let head = word >> 2
        guard head < UInt64(memory.size), head & 7 == 0 else { return false }
        (knownHead, mostTaken) = (Int(head), taken &+ queueLimit)
        return true
    }

    /// No frame is smaller. Smaller records would be millions in one ring.
    static let smallest = Wire.headerSize

    /// The first record.
    @inline(__always)
    func look() -> Look {
        while true {
            if tail == knownHead {
                if isStopped { return .nothing }
                guard know(memory.head.pointee.load(ordering: .acquiring)) else { return .broken }
                if tail == knownHead { return .nothing }
            } else if taken == mostTaken {
                return .broken
            }
            // Copied once, because the sender may write at any time.
            let word = (memory.records + tail).load(as: UInt64.self)
            let (kind, count) = (UInt32(truncatingIfNeeded: word >> 32), Int(word & 0xFFFF_FFFF))
            if kind == RingMemory.Kind.wrap {
                guard knownHead < tail else { return .broken }
                tail = 0
                continue
            }
            let limit = knownHead > tail ? knownHead : memory.size
            let end = tail + RingMemory.room(for: count)
            guard count >= Self.smallest, count <= messageLimit || count == LargeRecord.recordSize, end <= limit else {
                return .broken
            }
            if kind == RingMemory.Kind.large {
                let bytes = UnsafeRawBufferPointer(start: memory.records + tail + 8, count: count)
                guard LargeRecord.read(bytes, limit: messageLimit) != nil else { return .broken }
            } else if kind != RingMemory.Kind.message || count > messageLimit {
                return .broken
            }
            return .record(
                Record(
                    kind: kind, bytes: UnsafeRawBufferPointer(start: memory.records + tail + 8, count: count), end: end)
            )
        }
    }

    // MARK: Memory of its own

    /// Hostile senders alone hand over more at a time.
    private static let mostMemories = 16

    /// Reads the bell's bytes, and keeps the memory that has come with them.
    /// - Parameter most: The number of memories that suffices.
    private func hear(_ most: Int = mostMemories) {
        unheard = 0
        bell.hear { memory in
            memories.append(memory)
            return memories.count < most
        }
    }

    /// Copies a record, and takes it; nil when no memory is left. The frame is empty when the memory of a large message was
    /// lost.
    func takeFrame(_ record: Record) -> Frame? {
        guard record.kind == RingMemory.Kind.large else {
            guard let frame = copy(record) else { return nil }
            take(record, size: frame.count)
            return frame
        }
        // Read before the copy, because the sender may change it. It has counted a message that is lost, too.
        let size = LargeRecord.read(record.bytes, limit: messageLimit) ?? 0
        guard let frame = copy(record) else { return nil }
        if frame.count == 0 { warnLost() }
        if !memories.isEmpty { memories.removeFirst() }
        take(record, size: size)
        return frame
    }

    private func warnLost() {
        log.warning(
            about: .process(sender.pid), once: "memory",
            "a large message of \(ProcessIdentity(pid: sender.pid)) is lost: there was no descriptor left for its memory"
        )
    }

    /// Copies a record; nil when no memory is left. The frame is empty when the memory of a large message was lost.
    /// - Parameter others: The number of messages before it in memory of their own that were not taken.
    private func copy(_ record: Record, after others: Int = 0) -> Frame? {
        guard record.kind == RingMemory.Kind.large else {
            guard var frame = try? Frame(count: record.bytes.count) else { return nil }
            frame.withUnsafeMutableBytes { if !$0.isEmpty { $0.copyMemory(from: record.bytes) } }
            return frame
        }
        if memories.count <= others { hear(others + 1) }
        guard let size = LargeRecord.read(record.bytes, limit: messageLimit), others < memories.count,
            let memory = memories[others]
        else { return Frame() }
        guard var frame = try? Frame(count: size) else { return nil }
        return LargeRecord.read(memory, into: &frame) ? frame : Frame()
    }

    /// Takes nothing until ``open()``.
    func block() { isBlocked = true }

    /// Gives the room of the record back, whose bytes were copied.
    /// - Parameter size: The size of the message.
    @inline(__always)
    func take(_ record: Record, size: Int) {
        skip(record)
        takenBytes &+= UInt64(size)
        emptyLooks = 0
        memory.takenBytes.pointee.store(takenBytes, ordering: .relaxed)
        memory.tail.pointee.store(UInt64(taken) << 32 | UInt64(tail / 8), ordering: .releasing)
        // Without the fence a wish for room may be overlooked until the next fence.
        if taken & 31 == 0 { atomicMemoryFence(ordering: .sequentiallyConsistent) }
        if isRoomWanted { bell.ring() }
    }

    private var isRoomWanted: Bool {
        let room = memory.room.pointee.load(ordering: .sequentiallyConsistent)
        guard room >> 32 != 0, Int32(truncatingIfNeeded: taken &- UInt32(truncatingIfNeeded: room)) >= 0 else {
            return false
        }
        return memory.room.pointee.exchange(0, ordering: .sequentiallyConsistent) != 0
    }

    /// Wakes a sender whose wish for room was overlooked.
    private func checkRoom() {
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        if isRoomWanted { bell.ring() }
    }

    /// Closes the empty ring: the sender of the next record rings.
    /// - Returns: False when there is a record.
    func close() -> Bool {
        guard isOpen else { return true }
        if isBlocked {
            isOpen = false
            return true
        }
        checkRoom()
        guard isStopped ? tail == knownHead : setFlag(isEnding ? RingMemory.ended : RingMemory.closed) else {
            return false
        }
        isOpen = false
        if isEnding { isEnded = true }
        return true
    }

    /// Sets a bit of the head while the ring is empty.
    private func setFlag(_ flag: UInt64) -> Bool {
        guard tail == knownHead else { return false }
        var expected = UInt64(tail) << 2
        while true {
            let (isDone, found) = memory.head.pointee.compareExchange(
                expected: expected, desired: expected | flag, ordering: .sequentiallyConsistent)
            if isDone || found & flag != 0 && found >> 2 == UInt64(tail) { return true }
            if found >> 2 != UInt64(tail) { return false }
            expected = found
        }
    }

    /// Takes what is in the ring, and nothing more. The sender of the next record learns that it was not sent.
    func stop() {
        guard !isEnded, !isStopped else { return }
        guard know(memory.head.pointee.bitwiseOr(RingMemory.ended, ordering: .acquiringAndReleasing).oldValue) else {
            return end()
        }
        (isStopped, isEnding) = (true, true)
        bell.ring()
    }

    /// Takes nothing more, whatever waits. The sender of the next record learns it.
    func end() {
        memory.head.pointee.bitwiseOr(RingMemory.ended, ordering: .acquiringAndReleasing)
        (isOpen, isEnded) = (false, true)
        bell.ring()
    }

    /// The bell was rung, or the sender is gone: takers look at the ring.
    func open() {
        guard !isEnded else { return }
        (isOpen, isBlocked, emptyLooks) = (true, false, 0)
        unheard += 1
        if unheard >= bell.patience, memories.count < Self.mostMemories { hear() }
    }

    /// The records that wait, by the sender's word; at least one when there is one.
    var waitingCount: Int {
        guard hasRecord else { return 0 }
        let count = UInt32(truncatingIfNeeded: memory.published.pointee.load(ordering: .relaxed)) &- taken
        return min(max(Int(Int32(bitPattern: count)), 1), Int(queueLimit))
    }

    /// The bytes of messages that wait in memory of their own. Reads the records alone, because a byte of the bell that is read
    /// before the ring is open may be the only sign of a message.
    var memorySize: Int {
        let first = (tail, taken, knownHead, mostTaken)
        defer { (tail, taken, knownHead, mostTaken) = first }
        var size = 0
        // A sender that goes on must not be read without end.
        for _ in 0..<queueLimit {
            guard !isEnded, case .record(let record) = look() else { break }
            if record.kind == RingMemory.Kind.large { size += LargeRecord.read(record.bytes, limit: messageLimit) ?? 0 }
            skip(record)
        }
        return size
    }

    /// The records that were taken.
    var takenCount: UInt32 { taken }

    /// The messages that the sender has sent to the port by its own word.
    var sentCount: Int { Int(clamping: memory.sent.pointee.load(ordering: .relaxed)) }
}
