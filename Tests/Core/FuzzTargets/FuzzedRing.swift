@testable import Ports

/// A ring in which a sender has written any bytes: first the head, then the ring.
enum FuzzedRing {
    private static let queueLimit = 10

    /// - Returns: What is wrong with what the receiver reads; nil when nothing is.
    static func fault(in bytes: UnsafeRawBufferPointer) -> String? {
        guard let (descriptor, memory) = RingMemory.make(), let (bell, _) = Bell.make(),
            let view = RingMemory(descriptor.number)
        else { return "no memory" }
        defer { view.unmap() }
        let receiver = RingReceiver(
            memory, bell, peer: .random(), sender: SenderCredentials(pid: 1, uid: 1, gid: 1), queueLimit: queueLimit,
            messageLimit: 1 << 20)
        receiver.open()
        guard bytes.count >= 8 else { return nil }
        let written = UnsafeRawBufferPointer(rebasing: bytes[8...].prefix(memory.size))
        UnsafeMutableRawBufferPointer(start: view.records, count: memory.size).copyMemory(from: written)
        view.head.pointee.store(bytes.little(at: 0), ordering: .releasing)
        return fault(of: receiver, UnsafeRawBufferPointer(start: memory.records, count: memory.size))
    }

    private static func fault(of receiver: RingReceiver, _ ring: UnsafeRawBufferPointer) -> String? {
        // The head moves once, so that a sender of the library could have no more records waiting.
        for _ in 0...queueLimit {
            guard case .record(let record) = receiver.look() else { return faultOfEnd(receiver) }
            if record.bytes.count < Wire.headerSize { return "a record that is shorter than any frame" }
            let offset = record.bytes.baseAddress.map { $0 - UnsafeRawPointer(ring.baseAddress ?? $0) } ?? 0
            guard offset >= 8, offset + record.bytes.count <= ring.count else { return "a record outside of the ring" }
            guard receiver.takeFrame(record) != nil else { return "no memory" }
        }
        return "more records than the port's limit"
    }

    /// After the end of the sender, the ring ends, too.
    private static func faultOfEnd(_ receiver: RingReceiver) -> String? {
        receiver.isEnding = true
        receiver.open()
        for _ in 0...2 * queueLimit {
            switch receiver.look() {
            case .broken: return nil
            case .nothing: return receiver.close() && receiver.isEnded ? nil : "a ring that outlives its sender"
            case .record(let record):
                guard receiver.takeFrame(record) != nil else { return "no memory" }
            }
        }
        return "more records than the port's limit"
    }

    /// Rings with one record, with a record behind a wrap, and with a large message that has not come.
    static var seeds: [[UInt8]] {
        func words(_ words: UInt64...) -> [UInt8] {
            words.flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) } }
        }
        let (wrap, large) = (UInt64(RingMemory.Kind.wrap) << 32, UInt64(RingMemory.Kind.large) << 32)
        return [
            words(24 << 2, 16, 7, 7), words(24 << 2 | RingMemory.closed, 16, 7, 7), words(0, wrap),
            words(24 << 2, large | 16, 1, 9), words(16 << 2, 5, 7), words(.max >> 1 & ~31),
            words(80 << 2, 16, 7, 7, 24, 1, 2, 3, 16, 1, 2),
        ]
    }
}
