import CRunLoopShims
import Synchronization

@testable import Ports

/// The hostile process's end of a lane, in whose memory it writes what it likes.
final class HostileLane {
    private let memory: LaneMemory
    private let bell: LaneBell
    /// Keeps the other end of the bell, of a lane that the hostile process has made.
    private let other: OwnedDescriptor?

    /// A lane that an owner has made.
    /// - Parameter descriptors: Those that came with the packet.
    init?(_ descriptors: [OwnedDescriptor]) {
        guard descriptors.count == 2, let memory = LaneMemory(descriptors[0].number) else { return nil }
        (self.memory, bell, other) = (memory, LaneBell(descriptors[1]), nil)
    }

    private init(_ memory: LaneMemory, _ bell: LaneBell, _ other: OwnedDescriptor) {
        (self.memory, self.bell, self.other) = (memory, bell, other)
    }

    deinit { memory.unmap() }

    /// Makes a lane to hand over, with its descriptors.
    static func make() -> (lane: HostileLane, descriptors: [OwnedDescriptor])? {
        guard let (descriptor, memory) = LaneMemory.make() else { return nil }
        guard let (bell, other) = LaneBell.make() else {
            memory.unmap()
            return nil
        }
        return (HostileLane(memory, bell, other), [descriptor, other])
    }

    func attack() {
        switch machine.chance.below(8) {
        case 0: word.pointee.store(machine.chance.next(), ordering: .sequentiallyConsistent)
        case 1: write(number, at: offset)
        case 2: memory.head.pointee.store(UInt64(offset) << 2, ordering: .sequentiallyConsistent)
        case 3: memory.tail.pointee.store(UInt64(offset / 8) | number << 32, ordering: .sequentiallyConsistent)
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
        (memory.ring + offset).storeBytes(of: number, as: UInt64.self)
    }

    /// Writes a record behind the head, of a kind and with a size that may be wrong.
    private func writeRecord() {
        let start = Int(clamping: memory.head.pointee.load(ordering: .acquiring) >> 2)
        guard start % 8 == 0, start + 200 < memory.size, memory.populate(start..<start + 200) else { return }
        let kind = UInt32(below(4))
        let fitting = kind == LaneMemory.Kind.large ? Large.recordSize : Wire.headerSize + below(100)
        let count = below(4) == 0 ? number & 0xffff_ffff : UInt64(fitting)
        write(UInt64(kind) << 32 | count, at: start)
        for offset in stride(from: start + 8, to: start + 128, by: 8) { write(number, at: offset) }
        if below(2) == 0 { Wire.writePlainHeader(id: 0, byteCount: below(100), to: memory.ring + start + 8) }
        let end = below(4) == 0 ? offset : start + LaneMemory.room(for: Int(count % 120))
        if below(2) == 0 { memory.published.pointee.add(1, ordering: .relaxed) }
        memory.head.pointee.store(UInt64(end) << 2, ordering: .sequentiallyConsistent)
    }
}
