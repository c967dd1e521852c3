import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct CountersTests {
    let sandbox = Sandbox()

    @Test func `counters tell what was sent, taken, waits and was refused, and outlive ports and rights`() async throws
    {
        let (owner, asker) = (PortRuntime(directory: sandbox.path), PortRuntime(directory: sandbox.path))
        let zero = await owner.counters()
        #expect(zero == PortCounters())

        var port: MachPort? = try MachPort(nameServer: owner.nameServer)
        try owner.nameServer.register(try #require(port), name: "counted")
        var right: MachPort.SendRight? = try await asker.nameServer.port(forName: "counted", before: .patience)
        for _ in 0..<5 { try await right?.send(MachPort.Message(), before: .patience) }
        for _ in 0..<2 { _ = try await port?.receive(before: .patience) }

        // A sender that does not answer in a tenth of a second counts with its last answer.
        var counters = PortCounters()
        #expect(
            await waitUntil {
                counters = await owner.counters()
                return counters.waiting == 3
            })
        #expect((counters.received, counters.waiting, counters.ports, counters.peers) == (2, 3, 1, 1))
        let named = try #require(counters.named["counted"])
        #expect((named.id, named.received, named.waiting) == (try #require(port).id, 2, 3))
        let memory = counters.sharedMemory
        #expect((memory.used > 0, memory.size > memory.used) == (Sandbox.hasRings, Sandbox.hasRings))
        let sent = await asker.counters().sent
        #expect(sent == 5)

        // A plain port answers no requests.
        port?.setHandler { _ in }
        let thread = try await RunLoopThread()
        try port?.schedule(in: thread.loop)
        await #expect(throws: PortError.self) {
            try await RemoteMessagePort(try #require(right)).request(id: 1, timeout: .seconds(60))
        }
        counters = await owner.counters()
        #expect((counters.received, counters.refused, counters.waiting) == (6, 1, 0))

        port?.invalidate()
        port = nil
        right = nil
        counters = await owner.counters()
        #expect((counters.received, counters.ports, counters.named.isEmpty) == (6, 0, true))
        #expect(await asker.counters().sent == 6)
    }

    @Test func `what waits in a port when it ends is dropped, and a peer that ends is no peer`() async throws {
        let owner = PortRuntime(directory: sandbox.path)
        var asker: PortRuntime? = PortRuntime(directory: sandbox.path)
        let port = try MachPort(nameServer: owner.nameServer)
        try owner.nameServer.register(port, name: "ended")
        do {
            let right = try await #require(asker).nameServer.port(forName: "ended", before: .patience)
            try await right.send(MachPort.Message(), before: .patience)
            _ = try await port.receive(before: .patience)
        }
        for _ in 0..<3 { try await port.sendRight.send(MachPort.Message(), before: .patience) }
        var counters = await owner.counters()
        #expect((counters.waiting, counters.dropped, counters.peers) == (3, 0, 1))

        port.invalidate()
        asker = nil
        #expect(await waitUntil { owner.control.peerCount == 0 })
        counters = await owner.counters()
        #expect((counters.waiting, counters.dropped, counters.peers, counters.ports) == (0, 3, 0, 0))
    }

    @Test func `a cancelled task gets the counters with the last answers`() async throws {
        let owner = PortRuntime(directory: sandbox.path)
        let port = try MachPort(nameServer: owner.nameServer)
        try owner.nameServer.register(port, name: "counted")
        try await port.sendRight.send(MachPort.Message(), before: .patience)
        let counting = Task {
            while !Task.isCancelled { await Task.yield() }
            return await owner.counters()
        }
        counting.cancel()
        let counters = await counting.value
        #expect((counters.waiting, counters.named["counted"]?.waiting) == (1, 1))
    }
}
