import Glibc
import Ports
import RunLoops

/// Frozen memory, copied bytes and descriptors, from this process to a child, which answers each request with the times of
/// what it did.
final class MemoryPeer: Sendable {
    static let role = "receiver-of-memory"

    private enum Order {
        static let note: UInt32 = 0
        /// Map the memory.
        static let map: UInt32 = 1
        /// Read every byte.
        static let read: UInt32 = 2
    }

    /// When the child's handler began, when it could read, and when it had read, in nanoseconds.
    struct Times {
        let begun: UInt64
        let readable: UInt64
        let read: UInt64
    }

    private let remote: RemoteMessagePort
    private let child: Child
    private let file: MessageDescriptor

    init() throws {
        child = try Child("\(Self.role) memory")
        Placement.apart.bindNear()
        remote = RemoteMessagePort(
            try PortNameServer.shared.waitForPort(forName: Self.role, before: .now + .seconds(10)))
        file = try MessageDescriptor(duplicating: STDERR_FILENO)
    }

    // MARK: The child

    /// The child's side; does not return.
    static func serve() throws {
        let port = try LocalMessagePort(name: role, messageLimit: 128 << 20) { request in
            do { try request.replyRight?.reply(with: answer(to: request.message), before: nil) } catch { fail(error) }
        }
        let thread = try RunLoopThread { _ in Placement.apart.bindFar() }
        try port.schedule(in: thread.loop)
        thread.join()
    }

    private static func answer(to message: MachPort.Message) throws -> [UInt8] {
        let begun = now()
        var (readable, read) = (begun, begun)
        func use(_ bytes: RawSpan) {
            readable = now()
            if message.id == Order.read { sum = sum(of: bytes) }
            read = now()
        }
        if let descriptor = message.descriptor(ofComponent: 0) {
            if message.id != Order.note { try SharedMemory(descriptor).withBytes(use) }
        } else {
            message.withBytes(use)
        }
        return [begun, readable, read].flatMap { time in withUnsafeBytes(of: time.littleEndian, Array.init) }
    }

    /// Kept, so that the reading is not left out.
    nonisolated(unsafe) private static var sum: UInt64 = 0

    private static func sum(of bytes: RawSpan) -> UInt64 {
        bytes.withUnsafeBytes { bytes in
            bytes.bindMemory(to: UInt64.self).reduce(0, &+)
        }
    }

    static func now() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    // MARK: Requests

    private func times(_ component: MachPort.Message.Component, _ order: UInt32) throws -> Times {
        let reply = try remote.request(MachPort.Message(id: order, [component]), timeout: .seconds(60))
        let times = reply.withBytes { bytes in
            (0..<3).map { UInt64(littleEndian: bytes.unsafeLoadUnaligned(fromByteOffset: 8 * $0, as: UInt64.self)) }
        }
        guard let times else { throw BenchError.noAnswer }
        return Times(begun: times[0], readable: times[1], read: times[2])
    }

    private static func microseconds(_ begin: UInt64, _ end: UInt64) -> Double { Double(end - begin) / 1000 }

    private func median(of count: Int, _ measure: () throws -> Double) rethrows -> Double {
        try (0..<count).map { _ in try measure() }.sorted()[count / 2]
    }

    // MARK: From the send to the handler

    /// Until the handler can read memory that is frozen already.
    func pass(_ memory: SharedMemory) throws -> Double {
        try median(of: 5) {
            let begin = Self.now()
            return Self.microseconds(
                begin, try times(.descriptor(memory.makeDescriptor()), Order.map).readable)
        }
    }

    func pass(_ bytes: [UInt8]) throws -> Double {
        try median(of: 3) {
            let begin = Self.now()
            return Self.microseconds(begin, try times(.bytes(bytes), Order.note).readable)
        }
    }

    // MARK: All that a byte costs

    /// From bytes of this process to the last byte that the handler has read.
    func carry(asMemory bytes: [UInt8]) throws -> Double {
        try median(of: 5) {
            let begin = Self.now()
            let memory = try SharedMemory(copying: bytes.span.bytes)
            return Self.microseconds(begin, try times(.descriptor(memory.makeDescriptor()), Order.read).read)
        }
    }

    func carry(copying bytes: [UInt8]) throws -> Double {
        try median(of: 5) {
            let begin = Self.now()
            return Self.microseconds(begin, try times(.bytes(bytes), Order.read).read)
        }
    }

    /// The steps of memory's life, in the order of ``steps``.
    func life(_ size: Int) throws -> [Double] {
        var instants = [Self.now()]
        var draft = try SharedMemory.Draft(byteCount: size)
        instants.append(Self.now())
        draft.withMutableBytes { bytes in
            _ = bytes.withUnsafeMutableBytes { $0.initializeMemory(as: UInt8.self, repeating: 7) }
        }
        instants.append(Self.now())
        let memory = try draft.freeze()
        instants.append(Self.now())
        let times = try times(.descriptor(memory.makeDescriptor()), Order.read)
        let own = zip(instants, instants.dropFirst()).map(Self.microseconds)
        return own + [
            Self.microseconds(instants[3], times.begun), Self.microseconds(times.begun, times.readable),
            Self.microseconds(times.readable, times.read),
        ]
    }

    static let steps = ["made", "written", "frozen", "sent to the handler", "mapped", "every byte read"]

    // MARK: A descriptor

    private func trip(_ component: () throws -> MachPort.Message.Component) throws -> Double {
        try median(of: 1001) {
            let begin = Self.now()
            _ = try times(component(), Order.note)
            return Self.microseconds(begin, Self.now())
        }
    }

    func plainTrip() throws -> Double { try trip { .bytes([1]) } }
    func descriptorTrip() throws -> Double { try trip { .descriptor(try MessageDescriptor(duplicating: file.number)) } }

    // MARK: Rows

    static var rows: [Row] {
        let peer = Shared { try MemoryPeer() }
        let part = "memory, two processes"
        let passes = [1 << 20, 16 << 20, 64 << 20, 1 << 30].map { size in
            Row(part: part, work: "from the send to the handler", placement: .apart, payload: size) {
                let peer = try peer.value
                let memory = try SharedMemory.Draft(byteCount: size).freeze()
                let ours = Contestant("frozen memory") { try peer.pass(memory) }
                let millisecond = Contestant("a millisecond", .atMost(1)) { 1000 }
                guard size <= 64 << 20 else {
                    return Contest(quantities: [Quantity(.microseconds)], contestants: [ours, millisecond])
                }
                let bytes = [UInt8](repeating: 7, count: size)
                let copied = Contestant("copied bytes", limits: size == 64 << 20 ? [[.atMost(0.05)]] : []) {
                    [try peer.pass(bytes)]
                }
                return Contest(quantities: [Quantity(.microseconds)], contestants: [ours, copied, millisecond])
            }
        }
        let wholes = [64, 256, 1024, 4096, 8192, 10_240, 12_288, 16_384, 32_768, 65_536].map { $0 << 10 }.map { size in
            Row(part: part, work: "made, sent and every byte read", placement: .apart, payload: size) {
                let (peer, bytes) = (try peer.value, [UInt8](repeating: 7, count: size))
                return Contest(
                    .microseconds, ours: { try peer.carry(asMemory: bytes) },
                    Contestant("copied bytes") { try peer.carry(copying: bytes) })
            }
        }
        let lives = [1 << 20, 64 << 20, 1 << 30].map { size in
            Row(part: part, work: "memory", placement: .apart, payload: size) {
                let peer = try peer.value
                return Contest(
                    quantities: steps.map { Quantity(.microseconds, suffix: " \($0)") },
                    contestants: [Contestant("ours", values: { try peer.life(size) })])
            }
        }
        let descriptor = Row(part: part, work: "request with a descriptor, and its reply", placement: .apart) {
            let peer = try peer.value
            return Contest(
                .microseconds, ours: { try peer.descriptorTrip() },
                Contestant("a request of 1 byte", .atMost(1.5)) { try peer.plainTrip() })
        }
        return passes + wholes + lives + [descriptor]
    }
}
