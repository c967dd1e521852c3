import OwnThread
import TestSupport
import Testing
import TypedPorts

@testable import Ports

/// Ports and bytes inside values travel beside them.
@Suite(.ownThread) struct AttachmentTests {
    private struct Order: Codable, Equatable {
        var number: Int
        var answer: MachPort.SendRight
        var picture: MessageBytes
        var others: [String: MachPort.SendRight?] = [:]
        var pages: [MessageBytes] = []
        var spare: MachPort.SendRight?
    }

    private let folder = TemporaryFolder()

    private func runtime() -> PortRuntime { PortRuntime(directory: folder.path) }

    private func order(_ runtime: PortRuntime) throws -> (Order, [MachPort]) {
        let ports = try (0..<3).map { _ in try MachPort(nameServer: runtime.nameServer) }
        let rights = ports.map(\.sendRight)
        let order = Order(
            number: 5, answer: rights[0], picture: MessageBytes(Array(0...255)),
            others: ["a": rights[1], "b": rights[2], "none": MachPort.SendRight?.none],
            pages: [MessageBytes([]), MessageBytes([7, 8])])
        return (order, ports)
    }

    @Test(arguments: RoundTripTests.coders)
    func `a message has the value first, and behind it what the value holds`(_ coder: any MessageCoder) throws {
        let (order, ports) = try order(runtime())
        let message = try coder.message(id: 9, order, replyPort: ports[2].sendRight)
        #expect(message.id == 9)
        #expect(message.replyPort == ports[2].sendRight)
        #expect(message.components.count == 7)
        #expect(message.components[1] == .port(order.answer))
        #expect(message.components[2] == .bytes(Array(0...255)))
        #expect((message.withBytes { $0.byteCount } ?? 0) < 150)
        #expect(try coder.decode(Order.self, from: message) == order)
    }

    @Test(arguments: RoundTripTests.coders, [false, true])
    func `a received message gives the ports and the bytes`(_ coder: any MessageCoder, isOtherRuntime: Bool) throws {
        let owner = runtime()
        let sender = isOtherRuntime ? runtime() : owner
        let port = try MachPort(nameServer: owner.nameServer)
        try owner.nameServer.register(port, name: "test")
        let (order, ports) = try order(sender)
        try sender.nameServer.port(forName: "test", before: .patience).send(coder.message(order), before: .patience)
        let received = try coder.decode(Order.self, from: port.receive(before: .patience))
        #expect(received == order)
        #expect(received.picture.array == Array(0...255))
        #expect(received.picture.withBytes { $0.byteCount } == 256)
        try received.answer.send(MachPort.Message(id: 3), before: .patience)
        #expect(try ports[0].receive(before: .patience).id == 3)
        // What was received is sent on.
        #expect(try roundTrip(received, coder) == order)
    }

    @Test(arguments: RoundTripTests.coders)
    func `a number that names no attachment of that kind is refused`(_ coder: any MessageCoder) throws {
        let port = try MachPort(nameServer: runtime().nameServer)
        func message(_ number: Int64) throws -> MachPort.Message {
            try MachPort.Message([.bytes(encoded(number, coder)), .port(port.sendRight), .bytes([1])])
        }
        #expect(try coder.decode(MachPort.SendRight.self, from: message(0)) == port.sendRight)
        #expect(try coder.decode(MessageBytes.self, from: message(1)).array == [1])
        for number: Int64 in [1, 2, -1, 1024, 1 << 32, .max] {
            #expect(throws: DecodingError.self) { try coder.decode(MachPort.SendRight.self, from: message(number)) }
        }
        for number: Int64 in [0, 2, -1, 1024, 1 << 32, .max] {
            #expect(throws: DecodingError.self) { try coder.decode(MessageBytes.self, from: message(number)) }
        }
        #expect(throws: DecodingError.self) { try coder.decode(Int.self, from: MachPort.Message()) }
        #expect(throws: DecodingError.self) {
            try coder.decode(Int.self, from: MachPort.Message([.port(port.sendRight)]))
        }
    }

    @Test(arguments: RoundTripTests.coders)
    func `a message has a limit of attachments`(_ coder: any MessageCoder) throws {
        let most = Array(repeating: MessageBytes([1]), count: Attachments.largestCount)
        #expect(try coder.decode([MessageBytes].self, from: coder.message(most)) == most)
        #expect(throws: EncodingError.self) { try coder.message(most + [MessageBytes([1])]) }
    }

    @Test func `another encoder refuses ports and bytes, and says why`() throws {
        let port = try MachPort(nameServer: runtime().nameServer)
        for value in [port.sendRight, MessageBytes([1])] as [any Codable] {
            let error = #expect(throws: EncodingError.self) { try value.encode(to: OtherEncoder()) }
            guard case .invalidValue(_, let context) = error else { continue }
            #expect(context.debugDescription.contains("MessageCoder"))
        }
    }

    @Test(arguments: RoundTripTests.coders)
    func `values that follow one another share the attachments`(_ coder: any MessageCoder) throws {
        var bytes: [UInt8] = []
        var attachments = Attachments()
        var ends: [Int] = []
        for number in 0..<10 as Range<UInt8> {
            try coder.encode(["x": MessageBytes([number])], into: &bytes, attachments: &attachments)
            ends.append(bytes.count)
        }
        let message = MachPort.Message([.bytes(bytes)] + attachments.components)
        for number in 0..<10 {
            let range = (number == 0 ? 0 : ends[number - 1])..<ends[number]
            let value = try coder.decode(
                [String: MessageBytes].self, from: bytes.span.extracting(range).bytes,
                attachments: Attachments(of: message))
            #expect(value["x"]?.array == [UInt8(number)])
        }
    }
}

private struct OtherEncoder: Encoder {
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }
    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> { fatalError() }
    func unkeyedContainer() -> any UnkeyedEncodingContainer { fatalError() }
    func singleValueContainer() -> any SingleValueEncodingContainer { fatalError() }
}
