@testable import Ports

/// A lane in which a sender has written any bytes: first the head, then the ring.
enum FuzzedLane {
    /// - Returns: What is wrong with what the receiver reads; nil when nothing is.
    static func fault(in bytes: UnsafeRawBufferPointer) -> String? {
        guard let (descriptor, memory) = LaneMemory.make(), let (bell, _) = LaneBell.make(),
            let view = LaneMemory(descriptor.number)
        else { return "no memory" }
        defer { view.unmap() }
        let receiver = LaneReceiver(
            memory, bell, peer: .random(), sender: MessageSender(pid: 1, uid: 1, gid: 1), queueLimit: 10,
            messageLimit: 1 << 20)
        receiver.open()
        guard bytes.count >= 8 else { return nil }
        let written = UnsafeRawBufferPointer(rebasing: bytes[8...].prefix(memory.size))
        UnsafeMutableRawBufferPointer(start: view.ring, count: memory.size).copyMemory(from: written)
        view.head.pointee.store(bytes.little(at: 0), ordering: .releasing)
        return fault(of: receiver, UnsafeRawBufferPointer(start: memory.ring, count: memory.size))
    }

    private static func fault(of receiver: LaneReceiver, _ ring: UnsafeRawBufferPointer) -> String? {
        // More records than the bytes could hold would be read again and again.
        for _ in 0..<10_000 {
            guard case .record(let record) = receiver.look() else { return nil }
            let offset = record.bytes.baseAddress.map { $0 - UnsafeRawPointer(ring.baseAddress ?? $0) } ?? 0
            guard offset >= 8, offset + record.bytes.count <= ring.count else { return "a record outside of the ring" }
            guard receiver.takeFrame(record) != nil else { return "no memory" }
        }
        return nil
    }

    /// Rings with one record, with a record behind a wrap, and with a large message that has not come.
    static var seeds: [[UInt8]] {
        func words(_ words: UInt64...) -> [UInt8] {
            words.flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) } }
        }
        let (wrap, large) = (UInt64(LaneMemory.Kind.wrap) << 32, UInt64(LaneMemory.Kind.large) << 32)
        return [
            words(16 << 2, 5, 7), words(16 << 2 | LaneMemory.closed, 8, 7), words(0, wrap),
            words(24 << 2, large | 16, 1, 9),
            words(64 << 2, 8, 7, 24, 1, 2, 3, 0),
        ]
    }
}
