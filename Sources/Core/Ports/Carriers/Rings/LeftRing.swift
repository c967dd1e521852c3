import CRunLoopShims
import Glibc
import Synchronization

/// A reader of the messages that are left in a ring whose receiver is gone. It is the lender of the port. Nothing more is sent
/// by the ring.
///
/// The ring is read, not mapped, because the lender may have less address space than the process that has made the ring. The
/// next reader finds it as it was.
final class LeftRing {
    let sender: SenderCredentials
    private let memory: OwnedDescriptor
    private let size: Int
    private let messageLimit: Int
    private let head: Int
    private var tail: Int
    /// The bound on further records: the queue limit, which senders of this library keep.
    private var mostLeft: Int

    /// - Returns: Nil when the memory is no ring, or cannot be read now.
    init?(_ memory: OwnedDescriptor, of sender: SenderCredentials, queueLimit: Int, messageLimit: Int) {
        let words = RingMemory.withWords(of: memory.number) { ring in
            (
                size: ring.size,
                head: ring.head.pointee.bitwiseOr(RingMemory.ended, ordering: .acquiringAndReleasing).oldValue >> 2,
                tail: (ring.tail.pointee.load(ordering: .acquiring) & 0xFFFF_FFFF) * 8
            )
        }
        guard let words else { return nil }
        (self.memory, self.sender, self.messageLimit) = (memory, sender, messageLimit)
        (size, mostLeft) = (words.size, max(queueLimit, 1))
        let isSound = words.head < UInt64(size) && words.head & 7 == 0 && words.tail < UInt64(size)
        (head, tail) = isSound ? (Int(words.head), Int(words.tail)) : (0, 0)
        if !isSound { RingReceiver.warnBroken(of: sender) }
    }

    /// The next message, but for those in memory of their own.
    func next() -> RingReceiver.Copy {
        while tail != head {
            guard tail + 8 <= size else { return endBroken() }
            guard let (kind, count) = recordHead() else { return .missing }
            if kind == RingMemory.Kind.wrap {
                guard head < tail else { return endBroken() }
                tail = 0
                continue
            }
            let end = tail + RingMemory.room(for: count)
            guard mostLeft > 0, count >= RingReceiver.smallest, end <= (head > tail ? head : size),
                kind == RingMemory.Kind.large ? count == LargeRecord.recordSize : count <= messageLimit,
                kind == RingMemory.Kind.large || kind == RingMemory.Kind.message
            else { return endBroken() }
            let start = tail + 8
            if kind == RingMemory.Kind.message {
                guard var frame = try? Frame(count: count), read(start, into: &frame) else { return .missing }
                goOn(at: end)
                return .frame(frame)
            }
            goOn(at: end)
            log.warning(
                about: .process(sender.pid), once: "large left",
                "a large message of \(ProcessIdentity(pid: sender.pid)) is lost with the process that had its memory")
        }
        return .nothing
    }

    private func goOn(at end: Int) {
        tail = end == size ? 0 : end
        mostLeft -= 1
    }

    private func endBroken() -> RingReceiver.Copy {
        tail = head
        RingReceiver.warnBroken(of: sender)
        return .nothing
    }

    /// - Returns: Nil when the kernel does not read the memory now.
    private func recordHead() -> (kind: UInt32, count: Int)? {
        var word: UInt64 = 0
        guard crl_memory_read_at(memory.number, &word, 8, RingMemory.offset(inRing: tail)) else { return nil }
        return (UInt32(truncatingIfNeeded: word >> 32), Int(word & 0xFFFF_FFFF))
    }

    private func read(_ start: Int, into frame: inout Frame) -> Bool {
        var isWhole = false
        frame.withUnsafeMutableBytes { bytes in
            isWhole = crl_memory_read_at(
                memory.number, bytes.baseAddress, UInt64(bytes.count), RingMemory.offset(inRing: start))
        }
        return isWhole
    }
}
