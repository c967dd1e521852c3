import CRunLoopShims
import Synchronization

@testable import Ports

/// The hostile process's end of a ring, in whose memory it writes what it likes.
final class HostileRing {
    private let memory: RingMemory
    private let bell: Bell
    /// Keeps the other end of the bell, of a ring that the hostile process has made.
    private let other: OwnedDescriptor?

    /// A ring that an owner has made.
    /// - Parameter descriptors: Those that came with the packet.
    init?(_ descriptors: [OwnedDescriptor]) {
        guard descriptors.count == 2, let memory = RingMemory(descriptors[0].number) else { return nil }
        (self.memory, bell, other) = (memory, Bell(descriptors[1]), nil)
    }

    private init(_ memory: RingMemory, _ bell: Bell, _ other: OwnedDescriptor) {
        (self.memory, self.bell, self.other) = (memory, bell, other)
    }

    deinit { memory.unmap() }

    /// Makes a ring to hand over, with its descriptors.
    static func make() -> (ring: HostileRing, descriptors: [OwnedDescriptor])? {
        guard let (descriptor, memory) = RingMemory.make() else { return nil }
        guard let (bell, other) = Bell.make() else {
            memory.unmap()
            return nil
        }
        return (HostileRing(memory, bell, other), [descriptor, other])
    }

    func attack() {
        switch machine.chance.below(12) {
        case 0: word.pointee.store(machine.chance.next(), ordering: .sequentiallyConsistent)
        case 1: write(number, at: offset)
        case 2: memory.head.pointee.store(UInt64(offset) << 2, ordering: .sequentiallyConsistent)
        case 3: memory.tail.pointee.store(UInt64(offset / 8) | number << 32, ordering: .sequentiallyConsistent)
        case 4: writeRecords(1) { (RingMemory.Kind.message, $0 % UInt32(RingReceiver.smallest)) }
        case 5: announceMemory()
        // More than any queue limit.
        case 6: writeRecords(1_100) { _ in (RingMemory.Kind.message, UInt32(Wire.headerSize + 8)) }
        case 7:
            // What comes after memory that may not come.
            announceMemory()
            writeRecords(1 + below(20)) { _ in (RingMemory.Kind.message, UInt32(Wire.headerSize + 8)) }
        default: writeRecord()
        }
        bell.ring()
    }

    private func below(_ bound: Int) -> Int { machine.chance.below(bound) }
    private var number: UInt64 { below(2) == 0 ? UInt64(below(100)) : machine.chance.next() }
    /// Where a record may begin, near the begin of the ring most often.
    private var offset: Int { (below(2) == 0 ? below(64) : below(memory.size / 8)) * 8 }

    private var word: UnsafeMutablePointer<Atomic<UInt64>> {
        machine.chance.pick([memory.head, memory.sent, memory.published, memory.tail, memory.takenBytes, memory.room])
    }

    private func write(_ number: UInt64, at offset: Int) {
        guard offset + 8 <= memory.size, memory.populate(offset..<offset + 8) else { return }
        (memory.records + offset).storeBytes(of: number, as: UInt64.self)
    }

    /// Writes records behind the head, whose places are sound.
    /// - Parameter next: The kind and the size of the next record, of a number by chance.
    private func writeRecords(_ count: Int, _ next: (UInt32) -> (kind: UInt32, size: UInt32)) {
        var start = Int(clamping: memory.head.pointee.load(ordering: .acquiring) >> 2)
        guard start % 8 == 0, start < memory.size else { return }
        for _ in 0..<count {
            let (kind, size) = next(UInt32(below(1_000)))
            let end = start + RingMemory.room(for: Int(size))
            guard end + 8 < memory.size, memory.populate(start..<end + 8) else { break }
            write(UInt64(kind) << 32 | UInt64(size), at: start)
            if size >= Wire.headerSize {
                Wire.writePlainHeader(
                    id: 0, byteCount: Int(size) - Wire.plainHeaderSize, to: memory.records + start + 8)
            }
            start = end
        }
        memory.head.pointee.store(UInt64(start) << 2, ordering: .sequentiallyConsistent)
    }

    /// Announces a large message, whose memory may not come, and which the counts do not show.
    func announceMemory() {
        let start = Int(clamping: memory.head.pointee.load(ordering: .acquiring) >> 2)
        writeRecords(1) { _ in (RingMemory.Kind.large, UInt32(LargeRecord.recordSize)) }
        guard start % 8 == 0, start + 24 < memory.size, memory.populate(start..<start + 24) else { return }
        LargeRecord.write(20 << 20, to: memory.records + start + 8)
        if below(2) == 0 { _ = bell.send(OwnedDescriptor(crl_memory_make(UInt64(below(10_000)), false))) }
        memory.published.pointee.store(0, ordering: .relaxed)
    }

    /// Writes a record behind the head, of a kind and with a size that may be wrong.
    private func writeRecord() {
        let start = Int(clamping: memory.head.pointee.load(ordering: .acquiring) >> 2)
        guard start % 8 == 0, start + 200 < memory.size, memory.populate(start..<start + 200) else { return }
        let kind = UInt32(below(4))
        let fitting = kind == RingMemory.Kind.large ? LargeRecord.recordSize : Wire.headerSize + below(100)
        let count = below(4) == 0 ? number & 0xffff_ffff : UInt64(fitting)
        write(UInt64(kind) << 32 | count, at: start)
        for offset in stride(from: start + 8, to: start + 128, by: 8) { write(number, at: offset) }
        if below(2) == 0 { Wire.writePlainHeader(id: 0, byteCount: below(100), to: memory.records + start + 8) }
        let end = below(4) == 0 ? offset : start + RingMemory.room(for: Int(count % 120))
        if below(2) == 0 { memory.published.pointee.add(1, ordering: .relaxed) }
        memory.head.pointee.store(UInt64(end) << 2, ordering: .sequentiallyConsistent)
    }
}
