import CRunLoopShims
import OwnThread
import TestSupport
import Testing
import TypedPorts

@testable import Ports

/// Memory inside values travels with the message.
@Suite(.ownThread) struct MemoryCodingTests {
    private struct Frame: Codable {
        var image: SharedMemory
        var screen: SharedBuffer?
    }

    private let folder = TemporaryFolder()

    private func memory(_ bytes: [UInt8]) throws -> SharedMemory { try SharedMemory(copying: bytes.span.bytes) }

    private func bytes(of memory: SharedMemory) -> [UInt8] {
        memory.withBytes { bytes in bytes.withUnsafeBytes { Array($0) } }
    }

    @Test(arguments: RoundTripTests.coders, [PortRuntime.SharedMemoryUse.whenPossible, .never])
    func `a value has its memory in the other process`(
        _ coder: any MessageCoder, sharedMemory: PortRuntime.SharedMemoryUse
    ) throws {
        let owner = PortRuntime(directory: folder.path, sharedMemory: sharedMemory)
        let sender = PortRuntime(directory: folder.path)
        let port = try MachPort(nameServer: owner.nameServer)
        try owner.nameServer.register(port, name: "test")
        let right = try sender.nameServer.port(forName: "test")
        let sent = Frame(image: try memory([1, 2, 3]), screen: try SharedBuffer(byteCount: 8))
        // The same memory any number of times.
        for _ in 0..<2 { try right.send(coder.message(sent), before: .patience) }
        for number in 1...2 as ClosedRange<UInt8> {
            let message = try port.receive(before: .patience)
            for _ in 0..<2 {
                let received = try coder.decode(Frame.self, from: message)
                #expect(bytes(of: received.image) == [1, 2, 3])
                received.screen?.withUnsafeMutableBytes { $0[0] = number }
                #expect(sent.screen?.withUnsafeMutableBytes { $0[0] } == number)
            }
        }
        withExtendedLifetime((owner, sender)) {}
    }

    @Test(arguments: RoundTripTests.coders)
    func `memory that somebody can still change is refused`(_ coder: any MessageCoder) throws {
        let buffer = try SharedBuffer(byteCount: 8)
        let message = try MachPort.Message([.bytes(encoded(0, coder)), .descriptor(buffer.makeDescriptor())])
        let error = #expect(throws: DecodingError.self) { try coder.decode(SharedMemory.self, from: message) }
        guard case .dataCorrupted(let context)? = error, case .untrustedMemory? = context.underlyingError as? PortError
        else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(try coder.decode(SharedBuffer.self, from: message).byteCount == 8)
    }

    private struct Brighten: PortRequest {
        typealias Reply = SharedMemory
        var image: SharedMemory
    }

    @Test func `requests and replies have memory`() async throws {
        let runtimes = (PortRuntime(directory: folder.path), PortRuntime(directory: folder.path))
        let server = try RequestServer(name: "com.example.images", nameServer: runtimes.0.nameServer)
        server.handle(Brighten.self) { request in
            try self.memory(self.bytes(of: request.image).map { $0 &+ 1 })
        }
        async let running: Void = server.run()
        let client = RequestClient("com.example.images", nameServer: runtimes.1.nameServer)
        let image = try memory([UInt8](repeating: 7, count: 10_000_000))
        let reply = try await client.request(Brighten(image: image), timeout: .seconds(60))
        #expect(bytes(of: reply) == [UInt8](repeating: 8, count: 10_000_000))
        _ = await server.finish(timeout: .patience)
        try await running
        withExtendedLifetime(runtimes) {}
    }
}
