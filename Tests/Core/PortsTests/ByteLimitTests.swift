import Glibc
import OwnThread
import PortsInspection
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct ByteLimitTests {
    let sandbox = Sandbox()

    /// With a kilobyte of data.
    private func message(_ id: UInt32) -> MachPort.Message { .init(id: id, [.bytes(.init(repeating: 1, count: 1000))]) }

    private func fill(_ right: MachPort.SendRight) -> UInt32 {
        var count: UInt32 = 0
        while (try? right.send(message(count), before: .distantPast)) != nil { count += 1 }
        return count
    }

    @Test func `a sender waits when so many bytes wait, however few messages they are`() throws {
        let port = try MachPort(byteLimit: 10_000)
        #expect(fill(port.sendRight) == 9)
        #expect(throws: PortError.sendTimedOut(port: port.identity)) {
            try port.sendRight.send(message(9), before: .now + .milliseconds(20))
        }
        // Each one taken makes room for one.
        let sender = Helper { portError { try port.sendRight.send(message(9), before: .patience) } }
        #expect(waitUntil { port.sendRight.channel.waiterCount == 1 })
        #expect(try port.receive(before: .patience).id == 0)
        #expect(sender.value() == .some(nil))
        for number in 1..<10 as Range<UInt32> { #expect(try port.receive(before: .patience).id == number) }
    }

    @Test func `a sender that is cut off again and again does not starve`() throws {
        let (one, other) = (PortRuntime(directory: sandbox.path), PortRuntime(directory: sandbox.path))
        let port = try MachPort(byteLimit: 4096, nameServer: one.nameServer)
        try one.nameServer.register(port, name: "test")
        let right = try other.nameServer.port(forName: "test", before: .patience)
        let sender = Helper {
            portError { for number in 0..<2000 as Range<UInt32> { try right.send(message(number), before: .patience) } }
        }
        for number in 0..<2000 as Range<UInt32> {
            #expect(try port.receive(before: .patience).id == number)
            if number % 100 == 0 { try right.channel.connectToOwner(before: .patience)?.cut() }
        }
        #expect(sender.value() == .some(nil))
        withExtendedLifetime((one, other)) {}
    }

    @Test func `a sender in another process has all room when nothing waits, whoever takes one message at a time`()
        throws
    {
        let (one, other) = (PortRuntime(directory: sandbox.path), PortRuntime(directory: sandbox.path))
        let port = try MachPort(byteLimit: 10_000, nameServer: one.nameServer)
        try one.nameServer.register(port, name: "test")
        let right = try other.nameServer.port(forName: "test", before: .patience)
        for _ in 0..<3 {
            try right.send(message(1), before: .patience)
            #expect(try port.receive(before: .patience).id == 1)
            try right.send(.init(id: 2, [.bytes(.init(repeating: 1, count: 9500))]), before: .patience)
            #expect(try port.receive(before: .patience).id == 2)
        }
        withExtendedLifetime((one, other)) {}
    }

    @Test func `messages that have exactly the limit's bytes together have room`() throws {
        let port = try MachPort(byteLimit: 2 * 1020)
        #expect(fill(port.sendRight) == 2)
    }

    @Test func `messages of many sizes all come in order`() throws {
        let port = try MachPort(byteLimit: 5000)
        let sizes = (0..<2000).map { $0 * 7919 % 4900 }
        let sender = Helper {
            portError {
                for (number, size) in sizes.enumerated() {
                    let bytes = [UInt8](repeating: 2, count: size)
                    try port.sendRight.send(.init(id: UInt32(number), [.bytes(bytes)]), before: .patience)
                }
            }
        }
        for (number, size) in sizes.enumerated() {
            let message = try port.receive(before: .patience)
            #expect(message.id == UInt32(number))
            #expect(message.bytes?.count == size)
        }
        #expect(sender.value() == .some(nil))
    }

    @Test func `a message larger than the limit is refused, one as large is sent`() throws {
        let port = try MachPort(byteLimit: 1100)
        #expect(port.messageLimit == 1100)
        #expect(
            errorKind { try port.sendRight.send(.init([.bytes(.init(repeating: 0, count: 1100))])) }
                == "messageTooLarge")
        let header = 20
        for _ in 0..<3 {
            try port.sendRight.send(
                .init([.bytes(.init(repeating: 0, count: 1100 - header))]), before: .now + .seconds(20))
            _ = try port.receive(before: .patience)
        }
    }

    @Test func `a task waits for bytes too, and a loop that fills its own port gets the error at once`() async throws {
        let port = try MachPort(byteLimit: 10_000)
        let count = fill(port.sendRight)
        let task = Task { try await port.sendRight.send(message(count), before: .patience) }
        #expect(await waitUntil { port.sendRight.channel.waiterCount == 1 })
        for number in 0...count { #expect(try await port.receive(before: .patience).id == number) }
        try await task.value

        let (loop, error) = (try served(port), Shared(""))
        try loop.loop.perform {
            _ = fill(port.sendRight)
            let kind = errorKind { try port.sendRight.send(message(0), before: .patience) }
            error.withLock { $0 = kind }
        }
        #expect(await waitUntil { error.withLock { !$0.isEmpty } })
        #expect(error.withLock { $0 } == "ownQueueFull")
        loop.stop()
    }

    @Test func `another process's bytes on their way stay under the limit`() throws {
        let limit = 1_000_000
        let port = try MachPort(queueLimit: 100_000, byteLimit: limit, nameServer: sandbox.names)
        try sandbox.names.register(port, name: "test")
        let child = Child("bytes", "2000", "10000", in: sandbox)
        let right = port.sendRight
        // It is stuck when it sends no more.
        var before = 0
        #expect(
            waitUntil {
                let waiting = (try? right.statistics())?.waiting ?? 0
                defer { before = waiting }
                return waiting * 10_000 > limit / 2 && waiting == before
            })
        #expect(before * 10_000 <= limit)
        for number in 0..<2000 as Range<UInt32> { #expect(try port.receive(before: .patience).id == number) }
        child.kill()
    }

    @Test func `the registry tells the limit`() throws {
        let port = try MachPort(byteLimit: 12345, nameServer: sandbox.names)
        try sandbox.names.register(port, name: "limited")
        #expect(try sandbox.names.registration(forName: "limited")?.byteLimit == 12345)
        let other = try MachPort(nameServer: sandbox.names)
        try sandbox.names.register(other, name: "unlimited")
        #expect(try sandbox.names.registration(forName: "unlimited")?.byteLimit == .some(nil))
    }
}
