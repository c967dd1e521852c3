import Glibc
import OwnThread
import PortsInspection
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct PortMapTests {
    let sandbox = Sandbox()

    @Test func `a map has the processes, their ports, and what goes between`() async throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        let right = try desk.report()
        try sandbox.names.register(desk.port, name: "second")
        for _ in 0..<3 { try await right.send(MachPort.Message()) }
        // A sender that does not answer in a tenth of a second counts with its last answer.
        let areKnown = await waitUntil {
            _ = try? await desk.port.sendRight.statistics(before: .patience)
            let waiting = try? await right.statistics(before: .patience).waiting
            return waiting == 3 && desk.port.receiver.counts.withLock { $0.knownSenderCount } == 1
        }
        #expect(areKnown)

        let map = try await sandbox.names.map(observing: .milliseconds(20), before: .patience)
        #expect(Set(map.processes.map(\.pid)) == [getpid(), child.pid])
        #expect(map.processes.allSatisfy { $0.answers })
        #expect(map.processes.first { $0.pid == child.pid }?.program?.hasSuffix("/PortsTestHelper") == true)
        #expect(map.ports.map(\.names) == [["owned"], ["second", "test"]])
        #expect(map.ports.map(\.owner) == [child.pid, getpid()])
        #expect(map.ports[0].id == right.id.description)
        #expect(map.ports[0].info?.condition == .unserved)
        #expect(map.ports[0].info?.queue.waiting == 3)
        let sent = try #require(map.edges.first { $0.port == map.ports[0].id })
        #expect(sent.sender == getpid())
        #expect(sent.sent == 3)
        // The report of the child.
        #expect(map.edges.contains { $0.port == map.ports[1].id && $0.sender == child.pid && $0.sent == 1 })
        #expect(map.edges.count == 2)
    }

    @Test func `of processes that have ended, a map has those whose messages wait`() async throws {
        let port = try MachPort(nameServer: sandbox.names)
        try sandbox.names.register(port, name: "port")
        try await port.sendRight.send(MachPort.Message())
        let (receiver, sender) = (port.receiver, Incarnation.random())
        receiver.counts.withLock { $0.note(sent: 2, by: sender) }
        receiver.counts.withLock { $0.senderDied(sender, ProcessIdentity(pid: 1, program: "sender")) }
        for pid in 2...4 as ClosedRange<Int32> {
            receiver.unaskedSenderDied(ProcessIdentity(pid: pid, program: "asker"))
        }
        let map = try await sandbox.names.map(observing: .milliseconds(20), before: .patience)
        #expect(Set(map.processes.map(\.pid)) == [getpid(), 1])
        #expect(map.processes.filter(\.hasEnded).map(\.program) == ["sender"])
        #expect(map.edges.map(\.sender).sorted() == [1, getpid()])
    }

    @Test func `an owner of many names answers for each`() async throws {
        let ports = try (0..<150).map { number in
            let port = try MachPort(nameServer: sandbox.names)
            try sandbox.names.register(port, name: "port \(number)")
            if number % 2 == 0 { try port.sendRight.send(MachPort.Message(), before: .patience) }
            return port
        }
        let runtime = PortRuntime(directory: sandbox.path)
        let map = try await runtime.nameServer.map(observing: .milliseconds(100), before: .patience)
        #expect(map.ports.count == 150)
        #expect(map.ports.allSatisfy { $0.info != nil })
        withExtendedLifetime((ports, runtime)) {}
    }

    @Test func `an owner that does not answer is in the map`() async throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        _ = try desk.report()
        child.stop()
        let map = try await sandbox.names.map(observing: .milliseconds(20), before: .now + .seconds(5))
        #expect(map.processes.filter { !$0.answers }.map(\.pid) == [child.pid])
        #expect(map.ports.first { $0.names == ["owned"] }.map { $0.info == nil } == true)
    }

    @Test func `who waits for a reply is seen`() async throws {
        let (asked, asking) = (try MachPort(nameServer: sandbox.names), try MachPort(nameServer: sandbox.names))
        try sandbox.names.register(asked, name: "asked")
        try sandbox.names.register(asking, name: "asking")
        let request = Task { try await RemoteMessagePort(asked.sendRight).request(id: 1, timeout: .seconds(60)) }
        #expect(await waitUntil { asked.receiver.look().statistics.waiting == 1 })
        let map = try await sandbox.names.map(observing: .milliseconds(20), before: .patience)
        #expect(map.edges.first { $0.port == asked.id.description }?.awaitedReplies == 1)
        request.cancel()
        _ = await request.result
        withExtendedLifetime(asking) {}
    }
}
