import FarRequests
import Foundation
import NATSPorts
import Testing
import TypedPorts

/// Typed requests over a server of NATS. Each test has a server of its own.
@Suite(.serialized, .ownThread) struct NATSRequestTests {
    struct Secret: PortRequest { typealias Reply = String }
    struct Private: PortRequest, NetworkRequest { typealias Reply = String }
    struct Unknown: PortRequest, NetworkRequest { typealias Reply = String }
    struct WithRight: PortRequest, NetworkRequest {
        typealias Reply = EmptyReply
        var right: MachPort.SendRight
    }
    struct Bytes: PortRequest, NetworkRequest {
        typealias Reply = MessageBytes
        var bytes: MessageBytes
    }
    struct Origin: PortRequest, NetworkRequest { typealias Reply = String }
    /// Lasts until it is cancelled.
    struct Endless: PortRequest, NetworkRequest { typealias Reply = EmptyReply }

    private let nats: NATSServer
    private let name = "com.example.far"

    init() throws { nats = try NATSServer() }

    /// Runs a server, and finishes it after the body.
    private func serving(
        _ prepare: (RequestServer) -> Void, _ body: (RequestClient) async throws -> Void
    ) async throws {
        let connection = try await NATSConnection(nats.url)
        let server = try RequestServer(name: name, on: connection)
        prepare(server)
        let running = Task { try await server.run() }
        let client = try RequestClient(name, on: try await NATSConnection(nats.url))
        #expect(await waitUntil { await isServed(client) })
        try await body(client)
        #expect(await server.finish(timeout: .seconds(60)))
        try await running.value
        await #expect(throws: PortError.self) { try await client.request(Unknown()) }
    }

    private func isServed(_ client: RequestClient) async -> Bool {
        do { _ = try await client.request(Unknown()) } catch PortError.nameNotFound { return false } catch {}
        return true
    }

    @Test func `requests have replies, typed errors and streams as between processes`() async throws {
        try await serving {
            $0.handleFarRequests(as: "one")
        } _: { (client: RequestClient) async throws in
            #expect(try await client.request(Echo("hello")) == Echoed(text: "hello", server: "one"))
            await #expect(throws: Fail.Failure(number: 7)) { try await client.request(Fail(number: 7)) }
            var count = 0
            for try await element in client.stream(Numbers(count: 20_000, size: 10)) {
                #expect(element.number == count)
                count += 1
            }
            #expect(count == 20_000)
            count = 0
            await #expect(throws: Fail.Failure(number: 100)) {
                for try await _ in client.stream(Numbers(count: 100, fails: true)) { count += 1 }
            }
            #expect(count == 100)
        }
    }

    @Test func `many requests at a time each have their own reply`() async throws {
        try await serving {
            $0.handleFarRequests(as: "one")
        } _: { (client: RequestClient) async throws in
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<2000 {
                    group.addTask {
                        try await client.request(Echo("\(number)"), timeout: .seconds(60)).text == "\(number)"
                    }
                }
                for try await isRight in group { #expect(isRight) }
            }
        }
    }

    @Test func `a name that nobody serves is an error at once`() async throws {
        let client = try RequestClient(name, on: try await NATSConnection(nats.url))
        let start = ContinuousClock.now
        await #expect(throws: PortError.nameNotFound(name, directory: nats.url)) {
            try await client.request(Echo("hello"), timeout: .seconds(30))
        }
        await #expect(throws: PortError.nameNotFound(name, directory: nats.url)) {
            for try await _ in client.stream(Numbers(count: 1), timeout: .seconds(30)) {}
        }
        #expect(ContinuousClock.now - start < .seconds(10))
    }

    @Test func `only marked requests with handlers for any sender are taken`() async throws {
        try await serving { server in
            server.handle(Secret.self) { _ in "secret" }
            server.handle(Private.self) { _, request in "\(request.message.sender?.pid ?? 0)" }
            server.handle(Origin.self) { (_: Origin, origin: RequestOrigin) in
                if case .network(let sender) = origin { sender.networkProtocol } else { "local" }
            }
        } _: { (client: RequestClient) async throws in
            do {
                _ = try await client.request(Secret())
                Issue.record("an unmarked request has left")
            } catch { #expect("\(error)".contains("NetworkRequest")) }
            do {
                _ = try await client.request(Private())
                Issue.record("the handler was called")
            } catch { #expect("\(error)".contains("from other machines")) }
            do {
                _ = try await client.request(Unknown())
                Issue.record("there is no handler")
            } catch { #expect("\(error)".contains("knows no")) }
            #expect(try await client.request(Origin()) == "nats")
        }
    }

    @Test func `bytes travel beside a value, and rights and what is too large do not`() async throws {
        try await serving { server in
            server.handle(Bytes.self) { $0.bytes }
            server.handle(WithRight.self) { _ in EmptyReply() }
        } _: { (client: RequestClient) async throws in
            let bytes = MessageBytes((0..<100_000).map { UInt8(truncatingIfNeeded: $0) })
            #expect(try await client.request(Bytes(bytes: bytes)) == bytes)
            let port = try MachPort()
            await #expect(throws: NetworkRequestError.self) {
                try await client.request(WithRight(right: port.sendRight))
            }
            do {
                _ = try await client.request(Bytes(bytes: MessageBytes(repeatElement(1, count: 2 << 20))))
                Issue.record("the message was larger than the limit")
            } catch { #expect("\(error)".contains("1048576")) }
        }
    }

    @Test func `a handler's own error of a port is a failure, and the request is not handled again`() async throws {
        let count = Shared(0)
        try await serving { server in
            server.handle(Origin.self) { _ in
                count.withLock { $0 += 1 }
                throw PortError.refused(port: server.sendRight.identity)
            }
        } _: { (client: RequestClient) async throws in
            do {
                _ = try await client.request(Origin(), mayRepeat: true)
                Issue.record("the handler has thrown")
            } catch PortError.failed {}
        }
        #expect(count.withLock { $0 } == 1)
    }

    @Test func `a lane limits the requests of both ways together`() async throws {
        let (gate, opener) = AsyncStream.makeStream(of: Void.self)
        let running = Shared((now: 0, most: 0))
        try await serving { server in
            server.handle(Origin.self, in: RequestLane(atMost: 2, whenFull: .refuse(beyond: 1))) { _ in
                running.withLock { ($0.now, $0.most) = ($0.now + 1, max($0.most, $0.now + 1)) }
                for await _ in gate {}
                running.withLock { $0.now -= 1 }
                return "done"
            }
        } _: { (client: RequestClient) async throws in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<3 { group.addTask { _ = try await client.request(Origin(), timeout: .seconds(60)) } }
                #expect(await waitUntil { running.withLock { $0.now } == 2 })
                // One waits, and the next is too many.
                #expect(
                    await waitUntil {
                        do {
                            _ = try await client.request(Origin(), timeout: .milliseconds(500))
                        } catch PortError.serverBusy(_, let limit) {
                            return limit == 2
                        } catch {}
                        return false
                    })
                opener.finish()
                try await group.waitForAll()
            }
        }
        #expect(running.withLock { $0.most } == 2)
    }

    @Test func `a reply that is too large is an error that names the limit`() async throws {
        try await serving { server in
            server.handle(Origin.self) { _ in String(repeating: "a", count: 2 << 20) }
        } _: { (client: RequestClient) async throws in
            do {
                _ = try await client.request(Origin())
                Issue.record("the reply was larger than the limit")
            } catch { #expect("\(error)".contains("1048576")) }
        }
    }

    @Test(arguments: [true, false])
    func `a deadline and a cancellation reach the handler at once`(isDeadline: Bool) async throws {
        let (ends, end) = AsyncStream.makeStream(of: ContinuousClock.Instant.self)
        let begun = Shared(false)
        try await serving { server in
            server.handle(Endless.self) { _ in
                begun.withLock { $0 = true }
                try? await Task.sleep(for: .seconds(600))
                end.yield(.now)
                end.finish()
                return EmptyReply()
            }
        } _: { (client: RequestClient) async throws in
            let asking = Task {
                try await client.request(Endless(), timeout: isDeadline ? .milliseconds(300) : .seconds(300))
            }
            #expect(await waitUntil { begun.withLock { $0 } })
            if !isDeadline { asking.cancel() }
            let outcome = await asking.result
            let given = ContinuousClock.now
            if isDeadline {
                #expect { try outcome.get() } throws: {
                    if case PortError.receiveTimedOut? = $0 as? PortError { true } else { false }
                }
            } else {
                #expect(throws: CancellationError.self) { try outcome.get() }
            }
            for await ended in ends { #expect(ended - given < .seconds(2)) }
        }
    }

    @Test func `a slow reader slows the stream's server down, and its end ends the handler`() async throws {
        let produced = Shared(0)
        try await serving {
            $0.handleFarRequests(as: "one", note: { number in produced.withLock { $0 = number + 1 } })
        } _: { (client: RequestClient) async throws in
            var iterator = client.stream(Numbers(count: 1_000_000, size: 1000)).makeAsyncIterator()
            #expect(try await iterator.next()?.number == 0)
            // The numbers stop when all places are full.
            var last = -1
            while produced.withLock({ $0 }) != last {
                last = produced.withLock { $0 }
                try await Task.sleep(for: .milliseconds(300))
            }
            #expect(last < 5000)
            // Many more than the first window.
            for number in 1..<20_000 { #expect(try await iterator.next()?.number == number) }
        }
        #expect(produced.withLock { $0 } < 40_000)
    }

    @Test func `a server serves its machine and others with the same handlers`() async throws {
        let connection = try await NATSConnection(nats.url)
        let local = "com.example.both-\(UUID().uuidString.prefix(8))"
        let server = try RequestServer(name: local)
        try server.serve(on: connection)
        server.handle(Origin.self) { (_: Origin, origin: RequestOrigin) in
            if case .network = origin { "network" } else { "local" }
        }
        let running = Task { try await server.run() }
        #expect(try await RequestClient(local).request(Origin()) == "local")
        let far = try RequestClient(local, on: connection)
        #expect(await waitUntil { await isServed(far) })
        #expect(try await far.request(Origin()) == "network")
        let both = try RequestClient(local, on: connection, localFirst: .shared)
        #expect(try await both.request(Origin()) == "local")
        #expect(await server.finish(timeout: .seconds(60)))
        try await running.value
    }
}
