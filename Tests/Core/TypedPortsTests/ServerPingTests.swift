import OwnThread
import Ports
import TestSupport
import Testing

@testable import TypedPorts

/// A server's question to itself. No test blocks its thread.
@Suite(.ownThread) struct ServerPingTests {
    struct Job: PortRequest { typealias Reply = EmptyReply }
    struct Status: PortRequest { typealias Reply = EmptyReply }

    private let server: RequestServer
    private let client: RequestClient

    init() throws {
        server = try RequestServer()
        client = RequestClient(server.sendRight)
    }

    private func isTimeout(_ body: () async throws -> Void) async -> Bool {
        do {
            try await body()
            return false
        } catch {
            return PortError.isTimeout(error)
        }
    }

    @Test func `a server that runs answers itself, with handlers or without`() async throws {
        let running = Task { try await server.run() }
        try await server.ping(timeout: .seconds(60))
        server.handle(Status.self) { _ in EmptyReply() }
        try await server.ping(timeout: .seconds(60))
        #expect(await server.finish(timeout: .patience))
        try await running.value
        await #expect(throws: PortError.isInvalid(port: server.port.port.identity)) { try await server.ping() }
    }

    @Test func `a server that nobody runs does not answer itself`() async {
        #expect(await isTimeout { try await server.ping(timeout: .milliseconds(50)) })
    }

    @Test func `a server whose handlers all hang does not answer itself, and does when one goes on`() async throws {
        let (gate, opener) = AsyncStream.makeStream(of: Void.self)
        server.handle(Job.self) { _ in
            for await _ in gate {}
            return EmptyReply()
        }
        let running = Task { try await server.run(atMost: 2) }
        let jobs = (0..<2).map { _ in Task { try await client.request(Job(), timeout: .seconds(100)) } }
        #expect(await waitUntil { server.begunCount == 2 })
        #expect(await isTimeout { try await server.ping(timeout: .milliseconds(50)) })
        opener.finish()
        try await server.ping(timeout: .seconds(60))
        for job in jobs { _ = try await job.value }
        #expect(await server.finish(timeout: .patience))
        try await running.value
    }

    @Test func `a server that works while its ping waits is busy, and not stuck`() async throws {
        let (gate, opener) = AsyncStream.makeStream(of: Void.self)
        server.handle(Job.self) { _ in
            for await _ in gate {}
            return EmptyReply()
        }
        server.handle(Status.self, in: RequestLane(atMost: 1)) { _ in EmptyReply() }
        let running = Task { try await server.run(atMost: 1) }
        let job = Task { try await client.request(Job(), timeout: .seconds(100)) }
        #expect(await waitUntil { server.begunCount == 1 })
        let asking = Task {
            while !Task.isCancelled { _ = try await client.request(Status(), timeout: .seconds(60)) }
        }
        #expect(await waitUntil { server.begunCount > 1 })
        // Other tests may keep both of Swift's threads for a while.
        try await server.ping(timeout: .seconds(3))
        asking.cancel()
        _ = await asking.result
        opener.finish()
        _ = try await job.value
        #expect(await server.finish(timeout: .patience))
        try await running.value
    }
}
