import Glibc
import OwnThread
import PortsInspection
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// A process keeps a limited number of connections, and sends to any number of ports.
@Suite(.ownThread) struct ConnectionTests {
    let sandbox = Sandbox()

    @Test(.enabled(if: Descriptor.limit >= 2000), arguments: ["thread", "task"])
    func `a process sends in order to more ports than it has room for connections to`(_ sender: String) throws {
        let (count, rounds) = (Scale.count(150, long: 400), UInt32(Scale.count(4, long: 50)))
        let desk = try Desk(sandbox)
        let thread = try RunLoopThread()
        let got = Shared<[[UInt32]]>(Array(repeating: [], count: count))
        let ports = try (0..<count).map { index in
            // The last takes nothing that is larger than these messages.
            try MachPort(messageLimit: index == count - 1 ? 16 : 64 << 20, nameServer: sandbox.names) { message in
                got.withLock { $0[index].append(message.id) }
            }
        }
        // The first reads nothing until all was sent: its connection has to stay.
        for port in ports.dropFirst() { try port.schedule(in: thread.loop) }
        let child = Child(
            "visit", "\(rounds)", sender, in: sandbox,
            wrapper: ["/bin/sh", "-c", "ulimit -n 256; exec \"$0\" \"$@\""])
        try desk.report().send(MachPort.Message(ports.map { .port($0.sendRight) }), before: .patience)
        let descriptors = try desk.port.receive(before: .patience).id
        #expect(descriptors < 256 - 64)
        try ports[0].schedule(in: thread.loop)
        #expect(waitUntil { got.withLock { $0.allSatisfy { $0.count == rounds } } })
        #expect(got.withLock { $0.allSatisfy { $0 == Array(0..<rounds) } })
        for port in [ports[0], ports[1], ports[count - 1]] {
            #expect(try port.sendRight.statistics() == .init(received: Int(rounds), waiting: 0))
        }
        withExtendedLifetime(child) {}
    }

    /// With another channel beside the closed one, it could send twice as much as the port allows.
    @Test func `a runtime that is ending sends nothing, by whatever right`() throws {
        let port = try MachPort(nameServer: sandbox.names)
        try sandbox.names.register(port, name: "limited")
        let runtime = PortRuntime(directory: sandbox.path)
        try runtime.nameServer.port(forName: "limited").send(MachPort.Message(), before: .patience)
        runtime.channels.close { _ in .now }
        let channel = runtime.channels.channel(to: try port.sendRight.channel.exposedRight(), replacesInvalid: true)
        #expect(throws: PortError.isEnding) {
            try MachPort.SendRight(channel).send(MachPort.Message(), before: .patience)
        }
    }

    @Test func `a connection is closed only when its port has taken everything, and nothing has followed`() throws {
        let desk = try Desk(sandbox)
        let child = Child("echo", in: sandbox)
        let right = try desk.report()
        let channel = right.channel
        func send() throws { try right.send(MachPort.Message(id: 1), before: .patience) }
        /// By then, all that the port has said before has arrived here.
        func received() throws -> Int { try right.statistics(before: .patience).received }
        try send()
        channel.drained(0)
        #expect(channel.isOpen, "nobody has asked")
        #expect(try waitUntil { try received() == 1 })
        child.stop()
        // A ring whose messages were all taken would be closed at once.
        try send()
        channel.closeIfIdle()
        try send()
        child.signal(SIGCONT)
        #expect(try waitUntil { try received() == 3 })
        #expect(channel.isOpen, "something has followed")
        channel.closeIfIdle()
        #expect(waitUntil { !channel.isOpen })
        #expect(right.isValid)
        try send()
        #expect(try waitUntil { try received() == 4 })
        #expect(channel.isOpen)
    }

    @Test func `a connection is closed though nobody is just taking from its port, unless messages wait there`() throws
    {
        let port = try MachPort(nameServer: sandbox.names)
        let runtime = PortRuntime(directory: sandbox.path)
        try sandbox.names.register(port, name: "seldom")
        let sender = try runtime.nameServer.port(forName: "seldom", before: .patience)
        func closes() -> Bool {
            sender.channel.closeIfIdle()
            return !sender.channel.isOpen
        }
        for id in 1...3 as ClosedRange<UInt32> {
            try sender.send(MachPort.Message(id: id), before: .patience)
            // The port's answer would have come before those to these questions.
            for _ in 0..<3 where waitUntil(before: .now + .seconds(5), { port.receiver.look().statistics.waiting == 1 })
            {
                #expect(!closes())
                #expect(try sender.statistics(before: .patience).waiting == 1)
                #expect(sender.channel.isOpen)
            }
            #expect(try port.receive(before: .patience).id == id)
            #expect(waitUntil(closes))
        }
    }

    @Test(.enabled(if: Descriptor.limit >= 2000))
    func `a process without a descriptor left closes what has become unused`() throws {
        let desk = try Desk(sandbox)
        let ports = try (0..<100).map { _ in try MachPort(queueLimit: 1, nameServer: sandbox.names) }
        let child = Child(
            "fill-up", in: sandbox, wrapper: ["/bin/sh", "-c", "ulimit -n 256; exec \"$0\" \"$@\""])
        try desk.report().send(MachPort.Message(ports.map { .port($0.sendRight) }), before: .patience)
        #expect(waitUntil { access(sandbox.file("full"), F_OK) == 0 })
        let thread = try RunLoopThread()
        let arrived = Latch()
        for port in ports {
            port.setHandler { message in if message.id == 2 { arrived.open() } }
            try port.schedule(in: thread.loop)
        }
        #expect(arrived.wait(until: .patience))
        withExtendedLifetime(child) {}
    }

    @Test(.ownSleepingThread)
    func `of two that cannot connect each is told so`() throws {
        let desk = try Desk(sandbox)
        let child = Child("echo", in: sandbox)
        let right = try desk.report()
        child.stop()
        let first = Helper { errorKind { try right.send(MachPort.Message(), before: .now + .seconds(5)) } }
        #expect(waitUntil { right.channel.waiterCount == 1 })
        #expect(errorKind { try right.send(MachPort.Message(), before: .distantPast) } == "cannotConnect")
        #expect(first.value() == "cannotConnect")
    }

    @Test func `a connection that was not accepted is closed as one that is unused`() throws {
        let sandbox = Sandbox(sharedMemory: .never)
        let desk = try Desk(sandbox)
        let child = Child("echo", in: sandbox)
        let right = try desk.report()
        child.stop()
        #expect(errorKind { try right.send(MachPort.Message(), before: .distantPast) } == "cannotConnect")
        // Nobody knows whether the owner will accept it later.
        #expect(right.channel.isOpen)
        right.channel.closeIfIdle()
        #expect(!right.channel.isOpen)
        #expect(right.isValid)
        child.signal(SIGCONT)
        #expect(errorKind { try right.send(MachPort.Message(), before: .patience) } == "none")
        #expect(right.channel.isOpen)
    }
}
