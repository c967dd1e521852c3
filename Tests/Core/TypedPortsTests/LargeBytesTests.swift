import Glibc
import OwnThread
import TestSupport
import Testing

@testable import Ports
@testable import TypedPorts

/// Large bytes go to another process as frozen memory, or copied where that cannot be.
@Suite(.ownThread) struct LargeBytesTests {
    private struct Frame: Codable, Hashable {
        var number: Int
        var pixels: MessageBytes
        var others: [MessageBytes] = []
    }

    private let folder = TemporaryFolder()
    private let coder = CBORCoder()

    /// Two runtimes with a port of one, and the other's right to it.
    private struct Pair {
        let owner: PortRuntime
        let sender: PortRuntime
        let port: MachPort
        let right: MachPort.SendRight
    }

    private func pair(
        sharedMemory: PortRuntime.SharedMemoryUse = .whenPossible, byteLimit: Int? = nil, messageLimit: Int = 64 << 20
    ) throws -> Pair {
        let owner = PortRuntime(directory: folder.path, sharedMemory: sharedMemory)
        let sender = PortRuntime(directory: folder.path, sharedMemory: sharedMemory)
        let port = try MachPort(byteLimit: byteLimit, messageLimit: messageLimit, nameServer: owner.nameServer)
        try owner.nameServer.register(port, name: "test")
        return Pair(
            owner: owner, sender: sender, port: port, right: try sender.nameServer.port(forName: "test"))
    }

    private func memory(_ size: Int, _ byte: UInt8 = 7) throws -> SharedMemory {
        try SharedMemory(copying: [UInt8](repeating: byte, count: size).span.bytes)
    }

    /// Bytes that have come as memory, and go on as memory, so that few bytes are enough for a test.
    private func lent(_ bytes: [UInt8]) throws -> MessageBytes {
        MessageBytes(try SharedMemory(copying: bytes.span.bytes))
    }

    private func pass(_ frame: Frame, _ pair: Pair) throws -> MachPort.Message {
        try pair.right.send(coder.message(frame), before: .patience)
        return try pair.port.receive(before: .patience)
    }

    /// Sends until there is a way for descriptors.
    private func openWay(_ pair: Pair) throws {
        let frame = Frame(number: 0, pixels: try lent([1]))
        try #require(waitUntil { (try? pass(frame, pair).descriptor(ofComponent: 1)) != nil })
    }

    @Test(arguments: [PortRuntime.SharedMemoryUse.whenPossible, .never])
    func `many bytes go as memory, and stay equal`(_ sharedMemory: PortRuntime.SharedMemoryUse) throws {
        let pair = try pair(sharedMemory: sharedMemory)
        var bytes = [UInt8](repeating: 7, count: LargeBytes.least)
        bytes[bytes.count - 1] = 9
        let sent = Frame(number: 5, pixels: MessageBytes(bytes), others: [MessageBytes([1, 2])])
        // The first message finds no way for descriptors.
        let copied = try pass(sent, pair)
        #expect(copied.descriptor(ofComponent: 1) == nil)
        #expect(try coder.decode(Frame.self, from: copied) == sent)
        try openWay(pair)
        let message = try pass(sent, pair)
        #expect(message.descriptor(ofComponent: 1) != nil)
        #expect(message.descriptor(ofComponent: 2) == nil)
        let received = try coder.decode(Frame.self, from: message)
        #expect(received == sent)
        #expect(received.hashValue == sent.hashValue)
        #expect(received.pixels.count == bytes.count)
        #expect(received.pixels.array == bytes)
        #expect(received.pixels.withBytes { $0.unsafeLoad(fromByteOffset: bytes.count - 1, as: UInt8.self) } == 9)
        // Again, of the same message.
        #expect(try coder.decode(Frame.self, from: message) == sent)
        withExtendedLifetime(pair) {}
    }

    @Test func `fewer bytes are copied`() throws {
        let pair = try pair()
        try openWay(pair)
        let frame = Frame(number: 1, pixels: MessageBytes([UInt8](repeating: 7, count: LargeBytes.least - 1)))
        let message = try pass(frame, pair)
        #expect(message.descriptor(ofComponent: 1) == nil)
        #expect(try coder.decode(Frame.self, from: message) == frame)
        withExtendedLifetime(pair) {}
    }

    @Test func `received memory goes on without a copy, any number of times`() throws {
        let pair = try pair()
        try openWay(pair)
        let first = try coder.decode(Frame.self, from: pass(Frame(number: 1, pixels: try lent([1, 2, 3])), pair))
        let message = try coder.message(first)
        #expect(message.descriptor(ofComponent: 1)?.lentMemory != nil)
        for _ in 0..<3 {
            try pair.right.send(message, before: .patience)
            let again = try pair.port.receive(before: .patience)
            #expect(again.descriptor(ofComponent: 1) != nil)
            #expect(try coder.decode(Frame.self, from: again) == first)
        }
        // Inside the runtime, and before it is sent.
        let local = try MachPort(nameServer: pair.sender.nameServer)
        try local.sendRight.send(message, before: .patience)
        #expect(try coder.decode(Frame.self, from: local.receive(before: .patience)) == first)
        #expect(try coder.decode(Frame.self, from: message) == first)
        withExtendedLifetime(pair) {}
    }

    @Test func `no memory is made inside a runtime`() throws {
        let port = try MachPort()
        let frame = Frame(number: 1, pixels: MessageBytes([UInt8](repeating: 7, count: LargeBytes.least)))
        try port.sendRight.send(coder.message(frame), before: .patience)
        let message = try port.receive(before: .patience)
        #expect(message.descriptor(ofComponent: 1) == nil)
        #expect(try coder.decode(Frame.self, from: message) == frame)
    }

    @Test func `a port with a byte limit gets copies, which count`() throws {
        let pair = try pair(byteLimit: 1000)
        let frame = Frame(number: 1, pixels: try lent([1, 2, 3]))
        for _ in 0..<3 {
            let message = try pass(frame, pair)
            #expect(message.descriptor(ofComponent: 1) == nil)
            #expect(try coder.decode(Frame.self, from: message) == frame)
        }
        withExtendedLifetime(pair) {}
    }

    @Test func `a limit counts memory as it counts bytes`() throws {
        let pair = try pair(messageLimit: 10_000)
        let large = [UInt8](repeating: 7, count: 10_000)
        let (copied, inMemory) = (
            Frame(number: 1, pixels: MessageBytes(large)), Frame(number: 1, pixels: try lent(large))
        )
        func error(_ frame: Frame) -> PortError? {
            portError { try pair.right.send(coder.message(frame), before: .patience) }
        }
        let expected = error(copied)
        guard case .messageTooLarge? = expected else { return #expect(Bool(false), "\(String(describing: expected))") }
        #expect(error(inMemory) == expected)
        try openWay(pair)
        #expect(error(inMemory) == expected)
        let local = try MachPort(messageLimit: 10_000, nameServer: pair.owner.nameServer)
        func localError(_ frame: Frame) -> PortError? {
            portError { try local.sendRight.send(coder.message(frame), before: .patience) }
        }
        #expect(localError(inMemory) == localError(copied))
        #expect(localError(inMemory) != nil)
        withExtendedLifetime(pair) {}
    }

    private func portError(_ body: () throws -> Void) -> PortError? {
        do { try body() } catch { return error as? PortError }
        return nil
    }

    @Test func `more bytes than a message may have descriptors are copied`() throws {
        let pair = try pair()
        try openWay(pair)
        let most = MessageDescriptor.largestCount
        let others = try (0..<most + 6).map { try lent([UInt8($0)]) }
        let frame = Frame(number: 1, pixels: MessageBytes([1]), others: others)
        let message = try pass(frame, pair)
        #expect((0..<message.componentCount).count { message.descriptor(ofComponent: $0) != nil } == most)
        #expect(try coder.decode(Frame.self, from: message) == frame)
        withExtendedLifetime(pair) {}
    }

    @Test(arguments: [PortRuntime.SharedMemoryUse.whenPossible, .never])
    func `bytes are copied when too many descriptors are in flight`(_ sharedMemory: PortRuntime.SharedMemoryUse) throws
    {
        let pair = try pair(sharedMemory: sharedMemory)
        try openWay(pair)
        let frames = try (0..<8).map { number in
            Frame(
                number: number, pixels: MessageBytes([]),
                others: try (0..<50).map { try lent([UInt8($0), UInt8(number)]) })
        }
        // No send waits.
        for frame in frames { try pair.right.send(coder.message(frame), before: .now) }
        let messages = try frames.map { _ in try pair.port.receive(before: .patience) }
        #expect(try messages.map { try coder.decode(Frame.self, from: $0) } == frames)
        let counts = messages.map { message in
            (0..<message.componentCount).count { message.descriptor(ofComponent: $0) != nil }
        }
        #expect(counts.first == 50)
        #expect(counts.last == 0)
        withExtendedLifetime(pair) {}
    }

    @Test func `bytes for which no memory is to be had are copied`() throws {
        let pair = try pair()
        try openWay(pair)
        // No bytes are no memory.
        let components: [MachPort.Message.Component] = [.bytes([1]), .bytes([]), .bytes([2])]
        let large = try #require(LargeBytes(of: components, least: 0))
        let outgoing = try large.frame(
            MachPort.Message(components), kind: .message, request: 0, to: pair.right.channel)
        let (count, canCopy) = (outgoing.descriptors?.count, outgoing.canCopy)
        #expect(count == 1)
        #expect(canCopy)
        withExtendedLifetime(pair) {}
    }

    private struct Film: Codable {
        var sound: MessageDescriptor
        var frame: MessageBytes
        var memory: SharedMemory
    }

    @Test func `a value has descriptors beside large bytes`() throws {
        let pair = try pair()
        for number in 0..<5 as Range<UInt8> {
            let film = Film(
                sound: MessageDescriptor(owning: open("/dev/null", O_RDONLY)), frame: try lent([number]),
                memory: try memory(3))
            try pair.right.send(coder.message(film), before: .patience)
            let received = try coder.decode(Film.self, from: pair.port.receive(before: .patience))
            #expect(fcntl(try received.sound.number, F_GETFD) == FD_CLOEXEC)
            #expect(received.frame.array == [number])
            #expect(received.memory.byteCount == 3)
        }
        withExtendedLifetime(pair) {}
    }

    // MARK: Hostile senders

    private func error(_ message: MachPort.Message) -> PortError? {
        let error = #expect(throws: DecodingError.self) { try coder.decode(MessageBytes.self, from: message) }
        guard case .dataCorrupted(let context)? = error else { return nil }
        return context.underlyingError as? PortError
    }

    private func received(_ descriptors: [MessageDescriptor], _ pair: Pair) throws -> MachPort.Message {
        var message = try MachPort.Message([.bytes(encoded(0, coder))])
        message.components += descriptors.map { .descriptor($0) }
        try pair.right.send(message, before: .patience)
        return try pair.port.receive(before: .patience)
    }

    @Test func `a descriptor of anything but frozen memory is an error`() throws {
        let pair = try pair()
        let unsealed = makeMemoryFile(mayBeSealed: true)
        #expect(ftruncate(unsealed, 4096) == 0)
        let hole = makeMemoryFile(mayBeSealed: true)
        #expect(ftruncate(hole, 1 << 40) == 0)
        #expect(fcntl(hole, 1033, 2 | 4 | 8) == 0)  // F_ADD_SEALS: shrink, grow, write
        var others = [unsealed, hole].map { MessageDescriptor(owning: $0) }
        others.append(try SharedBuffer(byteCount: 10).makeDescriptor())
        others += ["/", "/dev/full", "/dev/zero"].map { (path: String) in
            MessageDescriptor(owning: open(path, O_RDONLY))
        }
        others.append(MessageDescriptor(owning: socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)))
        for (number, descriptor) in others.enumerated() {
            guard case .untrustedMemory? = try error(received([descriptor], pair)) else {
                #expect(Bool(false), "\(number)")
                continue
            }
        }
        // The file is cut after it was sent.
        let cut = makeMemoryFile(mayBeSealed: true)
        #expect(ftruncate(cut, 4096) == 0)
        let message = try received([try MessageDescriptor(duplicating: cut)], pair)
        #expect(ftruncate(cut, 0) == 0)
        guard case .untrustedMemory? = error(message) else { return #expect(Bool(false)) }
        close(cut)
        withExtendedLifetime(pair) {}
    }

    @Test func `memory beyond the limit of the port is an error, also of several together`() throws {
        let pair = try pair(messageLimit: 10_000)
        let whole = try memory(10_000)
        guard case .messageTooLarge(_, let size, 10_000)? = try error(received([whole.makeDescriptor()], pair)) else {
            return #expect(Bool(false))
        }
        #expect(size > 10_000)
        let half = try (0..<2).map { _ in try memory(6000).makeDescriptor() }
        let message = try received(half, pair)
        // The first one fits, any number of times.
        for _ in 0..<3 { #expect(try coder.decode(MessageBytes.self, from: message).count == 6000) }
        let second = Attachments(of: message)
        let isTooLarge = portError { _ = try second.bytes(1) }
        guard case .messageTooLarge? = isTooLarge else { return #expect(Bool(false)) }
        #expect(try coder.decode(MessageBytes.self, from: message).count == 6000)
        // Memory that the program asks for is not counted.
        #expect(try SharedMemory(#require(message.descriptor(ofComponent: 2))).byteCount == 6000)
        withExtendedLifetime(pair) {}
    }

    @Test func `memory that was lost is an error`() throws {
        let message = try MachPort.Message([
            .bytes(encoded(0, coder)), .descriptor(MessageDescriptor(missing: .descriptorLost)),
        ])
        #expect(error(message) == .descriptorLost)
    }

    // MARK: Requests

    private struct Invert: PortRequest {
        typealias Reply = MessageBytes
        var pixels: MessageBytes
    }

    private struct Copies: PortStreamRequest {
        typealias Element = MessageBytes
        var pixels: MessageBytes
    }

    @Test func `requests, replies and streams have large bytes`() async throws {
        let runtimes = (PortRuntime(directory: folder.path), PortRuntime(directory: folder.path))
        let server = try RequestServer(name: "com.example.images", nameServer: runtimes.0.nameServer)
        server.handle(Invert.self) { request in MessageBytes(request.pixels.array.map { ~$0 }) }
        server.handle(Copies.self) { request in
            AsyncStream { continuation in
                for _ in 0..<3 { continuation.yield(request.pixels) }
                continuation.finish()
            }
        }
        async let running: Void = server.run()
        let client = RequestClient("com.example.images", nameServer: runtimes.1.nameServer)
        let pixels = [UInt8](repeating: 7, count: LargeBytes.least)
        for _ in 0..<3 {
            let reply = try await client.request(Invert(pixels: MessageBytes(pixels)), timeout: .seconds(60))
            #expect(reply.count == pixels.count)
            #expect(reply.array.allSatisfy { $0 == ~7 })
        }
        for try await copy in client.stream(Copies(pixels: MessageBytes(pixels))) {
            #expect(copy.array == pixels)
        }
        _ = await server.finish(timeout: .patience)
        try await running
        withExtendedLifetime(runtimes) {}
    }
}
