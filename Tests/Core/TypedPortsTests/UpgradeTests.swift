import OwnThread
import TestSupport
import Testing
import TypedPorts

@testable import Ports

/// A server's port goes to the next version of its program.
@Suite(.ownThread) struct UpgradeTests {
    private struct Version: PortRequest {
        typealias Reply = Int
        var isSlow = false
    }

    private struct Upgrade: PortRequest {
        typealias Reply = EmptyReply
        var next: MachPort.SendRight
    }

    private let folder = TemporaryFolder()

    /// The page about moving ports has these programs.
    @Test func `no request is lost, and those that were taken are answered where they are`() async throws {
        let (old, new, asking) = (runtime(), runtime(), runtime())
        let (begun, goesOn) = (Shared(0), Promise<Void>())
        let server = try RequestServer(name: "store", nameServer: old.nameServer)
        server.handle(Version.self) { version in
            begun.withLock { $0 += 1 }
            if version.isSlow { _ = try await goesOn.value(before: .distantFuture, on: old.housekeeping) }
            return 1
        }
        let isHandedOver = Shared(Bool?.none)
        server.handle(Upgrade.self) { upgrade in
            Task {
                let areDone = try await server.handOver(to: upgrade.next, timeout: .seconds(60))
                isHandedOver.withLock { $0 = areDone }
            }
            return EmptyReply()
        }
        let running = Task { try await server.run() }
        let client = RequestClient("store", nameServer: asking.nameServer)
        #expect(try await client.request(Version(), timeout: .seconds(60)) == 1)
        async let slow = client.request(Version(isSlow: true), timeout: .seconds(60))
        #expect(await waitUntil { begun.withLock { $0 } == 2 })

        let inbox = try MachPort(nameServer: new.nameServer)
        _ = try await RequestClient("store", nameServer: new.nameServer).request(
            Upgrade(next: inbox.sendRight), timeout: .seconds(60))
        let message = try await inbox.receive(before: .now + .seconds(60))
        let right = try #require(message.receiveRight(ofComponent: 0))
        let next = try await RequestServer(claiming: right, nameServer: new.nameServer, timeout: .seconds(60))
        next.handle(Version.self) { _ in 2 }
        let runningNext = Task { try await next.run() }
        #expect(next.port.name == "store")
        #expect(try await client.request(Version(), timeout: .seconds(60)) == 2)
        #expect(isHandedOver.withLock { $0 } == nil)
        goesOn.set(())
        #expect(try await slow == 1)
        try await running.value
        #expect(await waitUntil { isHandedOver.withLock { $0 } == true })
        next.port.invalidate()
        try await runningNext.value
    }

    @Test func `a server that nobody claims goes on`() async throws {
        let (old, new) = (runtime(), runtime())
        let server = try RequestServer(name: "store", nameServer: old.nameServer)
        server.handle(Version.self) { _ in 1 }
        let running = Task { try await server.run() }
        let inbox = try MachPort(nameServer: new.nameServer)
        try new.nameServer.register(inbox, name: "next")
        let next = try await old.nameServer.port(forName: "next")
        // Connects, so that the time is that of the claim.
        try await next.send(MachPort.Message(id: 1), before: .now + .seconds(60))
        let error = await #expect(throws: PortError.self) {
            try await server.handOver(to: next, timeout: .seconds(1))
        }
        let port = server.port.port.identity
        let reason = "\(next.identity.ownerText) has not claimed it before the deadline: allow more time"
        #expect(error == .notHandedOver(port: port, reason: reason))
        #expect("\(error, default: "")" == "\(port) was not handed over, and goes on here: \(reason)")
        let client = RequestClient("store", nameServer: new.nameServer)
        #expect(try await client.request(Version(), timeout: .seconds(60)) == 1)
        server.port.invalidate()
        try await running.value
    }

    private func runtime() -> PortRuntime { PortRuntime(directory: folder.path) }
}
