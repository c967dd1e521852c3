import OwnThread
import RunLoops
import TestSupport
import Testing
import ZeroMQ

@testable import FuzzTargets
@testable import Ports

@Suite(.ownThread) struct WireFormatTests {
    private static let right = WireRight(
        id: PortID(
            incarnation: Incarnation(bits: 0x0123_4567_89ab_cdef_0011_2233_4455_6677), number: 0x1122_3344_5566_7788),
        queueLimit: 77, limit: 1 << 33, path: "/run/ports")

    private func header(of bytes: [UInt8]) throws -> FrameHeader {
        try bytes.withUnsafeBytes { try FrameHeader(checking: $0) }
    }

    private func bytes(of right: WireRight) -> [UInt8] {
        var bytes = [UInt8](repeating: 0xAA, count: right.size)
        bytes.withUnsafeMutableBytes { right.write(to: $0) }
        return bytes
    }

    /// A frame put together by hand: kind, id, request, components, reply right.
    private func frame(
        _ kind: Wire.Kind = .message, id: UInt32 = 0, request: UInt64 = 0, reply: [UInt8] = [],
        components: [(bytes: [UInt8], isPort: Bool)] = []
    ) -> [UInt8] {
        Samples.frame(kind, id: id, request: request, reply: reply, components: components)
    }

    private var rich: [UInt8] {
        let right = bytes(of: Self.right)
        return frame(
            .request, id: 0xDEAD_BEEF, request: 0x0102_0304_0506_0708, reply: right,
            components: [([1, 2, 3], false), (right, true), ([], false), (right, true)])
    }

    @Test(arguments: [Wire.Kind.message, .request, .reply, .drainProbe])
    func `every field of a header makes the round trip`(_ kind: Wire.Kind) throws {
        let right = bytes(of: Self.right)
        var sent = frame(
            kind, id: .max, request: kind == .message ? 0 : .max - 1, reply: right,
            components: [([9], false), (right, true)])
        sent.withUnsafeMutableBytes { $0.setLittle(0x8765_4321 as UInt32, at: 12) }
        let read = try header(of: sent)
        #expect(
            read
                == FrameHeader(
                    kind: kind, id: .max, request: kind == .message ? 0 : .max - 1, count: 2, replySize: right.count,
                    origin: 0x8765_4321))
    }

    @Test(arguments: ["", "/", "/run/ports", "/" + String(repeating: "ü", count: 53)])
    func `every field of a right makes the round trip`(_ path: String) throws {
        var right = Self.right
        right.path = path
        let read = try bytes(of: right).withUnsafeBytes { try WireRight(checking: $0) }
        #expect(read == right)
    }

    @Test func `a message makes the round trip through a frame`() throws {
        let sandbox = Sandbox()
        let (port, other) = (try MachPort(nameServer: sandbox.names), try MachPort(nameServer: sandbox.names))
        let components: [MachPort.Message.Component] = [
            .bytes([]), .bytes([1]), .port(other.sendRight), .bytes(Array(repeating: 7, count: 5000)),
            .port(port.sendRight),
        ]
        try port.sendRight.send(MachPort.Message(id: 42, components, replyPort: other.sendRight))
        let message = try port.receive(before: .patience)
        #expect(message.id == 42)
        #expect(message.components == components)
        #expect(message.replyPort == other.sendRight)
        #expect(message.withBytes(ofComponent: 3) { $0.byteCount } == 5000)
        #expect(message.withBytes(ofComponent: 2) { _ in true } == nil)
        #expect(message.withBytes(ofComponent: 5) { _ in true } == nil)
        #expect(message.withBytes(ofComponent: -1) { _ in true } == nil)
    }

    @Test func `a frame cut short anywhere is malformed, and so is one with a byte too many`() {
        let whole = rich
        for count in 0..<whole.count {
            #expect(throws: Wire.Malformed.self) { try header(of: Array(whole[..<count])) }
        }
        #expect(throws: Wire.Malformed.badSize) { try header(of: whole + [0]) }
    }

    @Test func `no change of a byte crashes, and what passes can be read`() throws {
        let whole = rich
        for index in whole.indices {
            for value in UInt8.min...UInt8.max {
                var bytes = whole
                bytes[index] = value
                try readAll(bytes)
            }
        }
    }

    @Test(arguments: [1, drawnSeed()]) func `random frames do not crash`(_ seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        for _ in 0..<20_000 {
            var bytes = (0..<Int.random(in: 0...120, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            // Let most of them pass the first checks.
            for (index, value) in [Wire.magic, Wire.version, UInt8.random(in: 0...2, using: &random), 0].enumerated()
            where bytes.count > index && Int.random(in: 0..<20, using: &random) > 0 {
                bytes[index] = value
            }
            for index in [9, 10, 11, 13, 14, 15] where index < bytes.count { bytes[index] = 0 }
            try readAll(bytes)
        }
    }

    /// Reads everything that the frame lets be read.
    private func readAll(_ bytes: [UInt8]) throws {
        var frame = try ZeroMQFrame(count: bytes.count)
        frame.withUnsafeMutableBytes { $0.copyBytes(from: bytes) }
        let received = ReceivedFrame(frame, PortRuntime.shared.channels)
        guard received.malformed == nil else { return }
        let message = MachPort.Message(.frame(received))
        var total = 0
        for index in 0..<received.header.count {
            total += message.withBytes(ofComponent: index) { $0.byteCount } ?? 0
        }
        #expect(total <= bytes.count)
        #expect(message.components.count == received.header.count)
        _ = message.replyPort
    }

    @Test func `sizes that are announced and not sent are malformed`() {
        var reply = frame(reply: [])
        reply[3] = .max
        #expect(throws: Wire.Malformed.badSize) { try header(of: reply) }
        var component = frame(components: [([1], false)])
        component.withUnsafeMutableBytes { $0.setLittle(UInt32.max >> 1, at: 16) }
        #expect(throws: Wire.Malformed.badSize) { try header(of: component) }
        component.withUnsafeMutableBytes { $0.setLittle(UInt32.max, at: 16) }
        #expect(throws: Wire.Malformed.badSize) { try header(of: component) }
        for count in [1, 2, 1_000_000, UInt32.max] {
            var components = frame()
            components.withUnsafeMutableBytes { $0.setLittle(count, at: 8) }
            #expect(throws: Wire.Malformed.badSize) { try header(of: components) }
        }
    }

    @Test func `another version is told apart`() {
        var bytes = frame()
        bytes[1] = 2
        #expect(throws: Wire.Malformed.badVersion(2)) { try header(of: bytes) }
        var right = self.bytes(of: Self.right)
        right[0] = 9
        #expect(throws: Wire.Malformed.badRightVersion(9)) { try header(of: frame(components: [(right, true)])) }
    }

    @Test(arguments: ["relative", "/nul\0byte", "/" + String(repeating: "x", count: 107)])
    func `a right with a path that cannot be one is malformed`(_ path: String) {
        var right = Self.right
        right.path = path
        let bytes = bytes(of: right)
        #expect(throws: Wire.Malformed.badRight) { try header(of: frame(reply: bytes)) }
    }

    @Test func `a right with more bytes than its path has is malformed`() {
        let right = bytes(of: Self.right) + [0x78]
        #expect(throws: Wire.Malformed.badRight) { try header(of: frame(components: [(right, true)])) }
        #expect(throws: Wire.Malformed.badRight) { try header(of: frame(reply: right)) }
    }

    @Test func `a right whose path is no text is malformed`() {
        var right = bytes(of: Self.right)
        right[WireRight.fixedSize + 5] = 0xFF
        #expect(throws: Wire.Malformed.badRight) { try header(of: frame(components: [(right, true)])) }
    }

    @Test(arguments: [(1, 1), (39, 0x80)] as [(Int, UInt8)])
    func `a right that would be sent on as another one is malformed`(_ offset: Int, _ value: UInt8) {
        var right = bytes(of: Self.right)
        right[offset] = value
        #expect(throws: Wire.Malformed.badRight) { try header(of: frame(components: [(right, true)])) }
    }

    @Test func `many components are read in one go`() throws {
        // Looking for each from the beginning would take hours.
        let count = 1_000_000
        let header = FrameHeader(count: count)
        var sent = try ZeroMQFrame(count: header.componentsOffset)
        sent.withUnsafeMutableBytes { bytes in
            bytes.initializeMemory(as: UInt8.self, repeating: 0)
            header.write(to: bytes)
        }
        let received = ReceivedFrame(sent, PortRuntime.shared.channels)
        #expect(received.malformed == nil)
        let began = ContinuousClock.now
        #expect(MachPort.Message(.frame(received)).components.count == count)
        #expect(began.duration(to: .now) < .seconds(20))
    }

    @Test(arguments: [PortRuntime.SharedMemoryUse.whenPossible, .never])
    func `malformed frames are dropped and counted, and good ones after them handled`(
        _ sharedMemory: PortRuntime.SharedMemoryUse
    ) throws {
        let sandbox = Sandbox()
        let names = PortNameServer(directory: sandbox.path)
        let port = try MachPort(nameServer: names)
        try names.register(port, name: "test")
        let other = PortRuntime(directory: sandbox.path, sharedMemory: sharedMemory)
        let right = try other.nameServer.port(forName: "test", before: .patience)
        let bad = Shared(0)
        // A record that is shorter than any frame ends a ring.
        let short: [[UInt8]] = sharedMemory == .never ? [[], [1, 2, 3], [1, 2, 3, 4]] : []
        for bytes in short + [Array(rich.dropLast()), [UInt8](repeating: 0xFF, count: 64)] {
            var frame = try ZeroMQFrame(count: bytes.count)
            frame.withUnsafeMutableBytes { $0.copyBytes(from: bytes) }
            var message = OutgoingMessage.frame(OutgoingFrame(frame))
            try right.channel.send(&message, before: .patience)
            bad.withLock { $0 += 1 }
        }
        try right.send(MachPort.Message(id: 3))
        #expect(try port.receive(before: .patience).id == 3)
        #expect(port.malformedCount == bad.withLock { $0 })
    }

    @Test(arguments: [
        "localhost:0:1000:4294967", "127.0.0.1:0:1000:4294967", ":0:1000:4294967", "a:b:0:1000:4294967",
        "x:4294967295:0:0",
        "", ":", "0:1:2", "localhost:1:2", "localhost:1:2:", "localhost::2:3", "localhost:1:2:3x", "localhost:1:2:-3",
        "localhost:1:2:4294967295", "localhost:1:4294967296:3", "localhost:1:2:99999999999",
    ])
    func `a sender is read from the address that the kernel's credentials are in`(_ address: String) {
        let sender = Array(address.utf8).withUnsafeBufferPointer(SenderCredentials.init)
        let fields = address.split(separator: ":", omittingEmptySubsequences: false)
        let (uid, gid) = (UInt32(fields.dropLast(2).last ?? ""), UInt32(fields.dropLast().last ?? ""))
        if fields.count > 3, let uid, let gid, let pid = Int32(fields.last ?? ""), pid >= 0 {
            #expect(sender == SenderCredentials(pid: pid, uid: uid, gid: gid))
        } else {
            #expect(sender == nil)
        }
    }
}
