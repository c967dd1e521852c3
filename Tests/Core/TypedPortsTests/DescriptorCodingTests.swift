import CRunLoopShims
import Glibc
import OwnThread
import TestSupport
import Testing
import TypedPorts

@testable import Ports

/// Descriptors inside values travel with the message.
@Suite(.ownThread) struct DescriptorCodingTests {
    private struct Files: Codable {
        var name: String
        var input: MessageDescriptor
        var others: [MessageDescriptor?] = []
    }

    private let folder = TemporaryFolder()
    /// A runtime lives as long as the test.
    private let runtimes = Shared<[PortRuntime]>([])

    private func runtime(_ sharedMemory: PortRuntime.SharedMemoryUse = .whenPossible) -> PortRuntime {
        let runtime = PortRuntime(directory: folder.path, sharedMemory: sharedMemory)
        runtimes.withLock { $0.append(runtime) }
        return runtime
    }

    /// Memory whose size tells which it is.
    private func memory(_ size: UInt64) -> MessageDescriptor { MessageDescriptor(owning: crl_memory_make(size, false)) }

    private func size(of descriptor: MessageDescriptor?) -> Int? {
        var status = stat()
        guard let number = try? descriptor?.number, fstat(number, &status) == 0 else { return nil }
        return status.st_size
    }

    @Test(arguments: RoundTripTests.coders, [nil, PortRuntime.SharedMemoryUse.whenPossible, .never])
    func `a value has its descriptors in the other process`(
        _ coder: any MessageCoder, otherRuntime: PortRuntime.SharedMemoryUse?
    ) throws {
        let owner = runtime(otherRuntime ?? .whenPossible)
        let sender = otherRuntime == nil ? owner : runtime()
        let port = try MachPort(nameServer: owner.nameServer)
        try owner.nameServer.register(port, name: "test")
        let sent = Files(name: "both", input: memory(1), others: [memory(2), nil, memory(3)])
        try sender.nameServer.port(forName: "test").send(coder.message(sent), before: .patience)
        #expect(throws: PortError.descriptorGone) { try sent.input.number }
        let message = try port.receive(before: .patience)
        for _ in 0..<2 {
            let received = try coder.decode(Files.self, from: message)
            #expect(received.name == "both")
            #expect(size(of: received.input) == 1)
            #expect(received.others.map(size) == [2, nil, 3])
        }
    }

    @Test(arguments: RoundTripTests.coders)
    func `a number that names no descriptor is refused`(_ coder: any MessageCoder) throws {
        let descriptor = memory(1)
        func message(_ number: Int64) throws -> MachPort.Message {
            try MachPort.Message([.bytes(encoded(number, coder)), .descriptor(descriptor), .bytes([1])])
        }
        #expect(try coder.decode(MessageDescriptor.self, from: message(0)) == descriptor)
        for number: Int64 in [1, 2, -1, 1024, 1 << 32, .max] {
            #expect(throws: DecodingError.self) { try coder.decode(MessageDescriptor.self, from: message(number)) }
        }
        #expect(throws: DecodingError.self) { try coder.decode(MessageBytes.self, from: message(0)) }
        #expect(throws: DecodingError.self) { try coder.decode(MachPort.SendRight.self, from: message(0)) }
    }

    private struct Open: PortRequest {
        typealias Reply = Files
        var size: MessageDescriptor
    }

    private struct Numbers: PortStreamRequest {
        typealias Element = Files
        var count: Int
    }

    @Test(arguments: [PortRuntime.SharedMemoryUse.whenPossible, .never])
    func `requests, replies and streams have descriptors`(_ sharedMemory: PortRuntime.SharedMemoryUse) async throws {
        let owner = runtime(sharedMemory)
        let server = try RequestServer(name: "com.example.files", nameServer: owner.nameServer)
        server.handle(Open.self) { request in Files(name: "reply", input: request.size) }
        server.handle(Numbers.self) { request in
            AsyncStream { continuation in
                for number in 1...request.count {
                    continuation.yield(Files(name: "\(number)", input: memory(UInt64(number))))
                }
                continuation.finish()
            }
        }
        async let running: Void = server.run()
        let client = RequestClient("com.example.files", nameServer: runtime().nameServer)
        for number in 1...20 {
            let reply = try await client.request(Open(size: memory(UInt64(number))), timeout: .seconds(30))
            #expect(size(of: reply.input) == number)
        }
        var sizes: [Int?] = []
        for try await element in client.stream(Numbers(count: 200)) { sizes.append(size(of: element.input)) }
        #expect(sizes == Array(1...200))
        _ = await server.finish(timeout: .seconds(10))
        try await running
    }
}
