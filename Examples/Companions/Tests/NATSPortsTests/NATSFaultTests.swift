import FarRequests
import Foundation
import NATSPorts
import Testing
import TypedPorts

/// Askers, servers and NATS that end in the middle. Each request has one outcome.
@Suite(.serialized, .ownThread) struct NATSFaultTests {
    /// Waits, and is counted by its number.
    struct Count: PortRequest, NetworkRequest {
        typealias Reply = Int
        var number: Int
        var delay: Duration
    }

    private let nats: NATSServer
    private let name = "com.example.far"

    init() throws { nats = try NATSServer() }

    private func makeClient() async throws -> RequestClient {
        try RequestClient(name, on: try await NATSConnection(nats.url))
    }

    private func isServed(_ client: RequestClient) async -> Bool { (try? await client.request(Echo(""))) != nil }

    @Test func `the death of an asker ends the handler within five seconds`() async throws {
        let connection = try await NATSConnection(nats.url)
        let server = try RequestServer(name: name, on: connection)
        let (begun, begin) = AsyncStream.makeStream(of: Void.self)
        let (ended, end) = AsyncStream.makeStream(of: Void.self)
        server.handle(Echo.self) { echo in
            if echo.delay == .zero { return Echoed(text: "", server: "") }
            begin.yield()
            try? await Task.sleep(for: echo.delay)
            end.yield()
            return Echoed(text: "", server: "")
        }
        let running = Task { try await server.run() }
        let client = try await makeClient()
        #expect(await waitUntil { await isServed(client) })
        let peer = try Peer(["ask", nats.url, name])
        for await _ in begun { break }
        // Longer than a dead asker lasts: a living one keeps its request.
        try await Task.sleep(for: .seconds(6))
        peer.kill()
        let death = ContinuousClock.now
        for await _ in ended { break }
        #expect(ContinuousClock.now - death < .seconds(5.5))
        running.cancel()
        try await running.value
    }

    @Test func `an asker whose tasks block all their threads keeps its request`() async throws {
        let server = try Peer(["serve", nats.url, name, "server"])
        let asker = try Peer(["block", nats.url, name])
        let line = await withCheckedContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(returning: asker.line()) }
        }
        #expect(line == "kept")
        withExtendedLifetime(server) {}
    }

    @Test func `the death of a server ends its requests with an error, or another handles those that may repeat`()
        async throws
    {
        let first = try Peer(["serve", nats.url, name, "first"])
        let client = try await makeClient()
        let once = Task { try await client.request(Echo("once", after: .seconds(100)), timeout: .seconds(200)) }
        let again = Task {
            try await client.request(Echo("again", after: .seconds(2)), timeout: .seconds(200), mayRepeat: true)
        }
        // Both are at the first server, the only one.
        try await Task.sleep(for: .seconds(1))
        let second = try Peer(["serve", nats.url, name, "second"])
        first.kill()
        let death = ContinuousClock.now
        let outcome = await once.result
        #expect { try outcome.get() } throws: {
            if case PortError.becameInvalid? = $0 as? PortError { true } else { false }
        }
        #expect(ContinuousClock.now - death < .seconds(8))
        #expect(try await again.value == Echoed(text: "again", server: "second"))
        second.finish()
    }

    @Test func `a stream whose server dies ends with an error after the elements that have come`() async throws {
        let peer = try Peer(["serve", nats.url, name, "first"])
        let client = try await makeClient()
        var count = 0
        do {
            for try await element in client.stream(Numbers(count: 1_000_000, pause: .milliseconds(10))) {
                #expect(element.number == count)
                count += 1
                if count == 20 { peer.kill() }
            }
            Issue.record("the stream cannot be complete")
        } catch PortError.becameInvalid {}
        #expect(count >= 20)
    }

    @Test func `a server that finishes answers what it has taken, and the others get the rest`() async throws {
        let handled = Shared<[Int: Int]>([:])
        func makeServer() async throws -> (RequestServer, Task<Void, any Error>) {
            let server = try RequestServer(name: name, on: try await NATSConnection(nats.url))
            server.handle(Echo.self) { Echoed(text: $0.text, server: "") }
            server.handle(Count.self) { count in
                handled.withLock { $0[count.number, default: 0] += 1 }
                try await Task.sleep(for: count.delay)
                return count.number
            }
            let running = Task { try await server.run() }
            return (server, running)
        }
        let (first, firstRun) = try await makeServer()
        let client = try await makeClient()
        #expect(await waitUntil { await isServed(client) })
        let (second, secondRun) = try await makeServer()
        try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<3000 {
                group.addTask {
                    try await client.request(Count(number: number, delay: .milliseconds(20)), timeout: .seconds(60))
                }
            }
            group.addTask {
                while handled.withLock({ $0.count }) < 500 { try await Task.sleep(for: .milliseconds(1)) }
                #expect(await first.finish(timeout: .seconds(60)))
                try await firstRun.value
                return -1
            }
            var sum = 0
            for try await number in group { sum += number }
            #expect(sum == 3000 * 2999 / 2 - 1)
        }
        #expect(handled.withLock { $0.count == 3000 && $0.values.allSatisfy { $0 == 1 } })
        #expect(await second.finish(timeout: .seconds(60)))
        try await secondRun.value
    }

    @Test func `after the end of NATS requests go on, and none is handled twice`() async throws {
        let connection = try await NATSConnection(nats.url)
        let server = try RequestServer(name: name, on: connection)
        let handled = Shared<[Int: Int]>([:])
        server.handle(Echo.self) { Echoed(text: $0.text, server: "") }
        server.handle(Count.self) { count in
            handled.withLock { $0[count.number, default: 0] += 1 }
            try await Task.sleep(for: count.delay)
            return count.number
        }
        let running = Task { try await server.run() }
        let client = try await makeClient()
        #expect(await waitUntil { await isServed(client) })
        let outcomes = Shared((replies: 0, errors: 0))
        await withTaskGroup(of: Void.self) { group in
            for asker in 0..<16 {
                group.addTask {
                    for number in 0..<200 {
                        let count = Count(number: asker * 1000 + number, delay: .milliseconds(5))
                        do {
                            _ = try await client.request(count, timeout: .seconds(20))
                            outcomes.withLock { $0.replies += 1 }
                        } catch {
                            outcomes.withLock { $0.errors += 1 }
                            // The client may be there before the server is.
                            _ = await waitUntil { await isServed(client) }
                        }
                    }
                }
            }
            group.addTask { [nats] in
                _ = await waitUntil { outcomes.withLock { $0.replies } > 500 }
                nats.kill()
                try? await Task.sleep(for: .milliseconds(500))
                try? nats.start()
            }
        }
        #expect(outcomes.withLock { $0.replies + $0.errors } == 16 * 200)
        #expect(outcomes.withLock { $0.errors } <= 32)
        #expect(handled.withLock { $0.values.allSatisfy { $0 == 1 } })
        #expect(try await client.request(Count(number: -1, delay: .zero)) == -1)
        running.cancel()
        try await running.value
    }

    @Test(.timeLimit(.minutes(1)))
    func `streams end with an error when NATS ends and comes back while their sides live on`() async throws {
        let server = try RequestServer(name: name, on: try await NATSConnection(nats.url))
        server.handleFarRequests(as: "one")
        let running = Task { try await server.run() }
        let client = try await makeClient()
        #expect(await waitUntil { await isServed(client) })
        let begun = Shared(0)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<16 {
                group.addTask {
                    // Neither side can know whether the other has what was sent.
                    await #expect(throws: PortError.self) {
                        for try await element in client.stream(Numbers(count: 1_000_000, pause: .milliseconds(5)))
                        where element.number == 20 { begun.withLock { $0 += 1 } }
                    }
                }
            }
            group.addTask { [nats] in
                _ = await waitUntil { begun.withLock { $0 == 16 } }
                nats.kill()
                try? await Task.sleep(for: .milliseconds(500))
                try? nats.start()
            }
        }
        running.cancel()
        try await running.value
    }

    @Test func `a stream whose network swallows everything ends with an error in time`() async throws {
        let connection = try await NATSConnection(nats.url)
        let server = try RequestServer(name: name, on: connection)
        server.handleFarRequests(as: "one")
        let running = Task { try await server.run() }
        let client = try await makeClient()
        #expect(await waitUntil { await isServed(client) })
        var count = 0
        let clock = ContinuousClock()
        var stopped = clock.now
        do {
            for try await element in client.stream(Numbers(count: 1_000_000, pause: .milliseconds(5))) {
                #expect(element.number == count)
                count += 1
                if count == 20 {
                    nats.send(SIGSTOP)
                    stopped = clock.now
                }
            }
            Issue.record("the stream cannot be complete")
        } catch is PortError {}
        #expect(clock.now - stopped < .seconds(8))
        nats.send(SIGCONT)
        // Requests go on by themselves.
        #expect(await waitUntil { await isServed(client) })
        running.cancel()
        try await running.value
    }
}
