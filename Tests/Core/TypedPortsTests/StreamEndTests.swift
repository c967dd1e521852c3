import OwnThread
import TestSupport
import Testing
import TypedPortsTestHelper

@testable import Ports
@testable import TypedPorts

/// How streams end whose elements are on their way while their servers end. No test blocks its thread.
@Suite(.ownThread) struct StreamEndTests {
    private let folder = TemporaryFolder()

    private struct Elements: PortStreamRequest {
        struct Failure: Error, Codable, Equatable {}
        typealias Element = MessageBytes
        var count: Int
        var failsAtEnd = false
    }

    /// Fewer batches than a reader and a server keep between them, and more than a reader keeps.
    private static let batchCount = 12

    /// Reads a stream to its end: the number of elements, and the error.
    private func rest<R>(
        of iterator: inout ReplyStream<R>.Iterator
    ) async -> (count: Int, error: (any Error)?) {
        var count = 0
        do {
            while try await iterator.next() != nil { count += 1 }
            return (count, nil)
        } catch {
            return (count, error)
        }
    }

    // MARK: A server in another process

    private func startServer() -> (server: Child, client: RequestClient, runtime: PortRuntime) {
        // By ZeroMQ, two queues hold all elements that the reader has not read, and by a ring only one.
        let runtime = PortRuntime(directory: folder.path, sharedMemory: .never)
        let server = Child([Child.folder + "/TypedPortsTestHelper"], environment: ["PORTS_DIRECTORY": folder.path])
        return (server, RequestClient("blocks", nameServer: runtime.nameServer), runtime)
    }

    /// Starts streams, and reads one element of each, until the server sends no more.
    private func pausedStreams(
        _ client: RequestClient, _ number: Int = 8
    ) async throws -> [ReplyStream<Blocks>.Iterator] {
        var iterators = (0..<number).map { _ in
            client.stream(Blocks(count: Self.batchCount), timeout: .seconds(60)).makeAsyncIterator()
        }
        for index in iterators.indices { #expect(try await iterators[index].next() != nil) }
        #expect(
            await waitUntil {
                (try? await client.request(ExhaustedStreams(), timeout: .seconds(60))) ?? 0 >= number
            })
        return iterators
    }

    @Test(.timeLimit(.minutes(10)))
    func `streams of a killed server end, with all elements or an error`() async throws {
        let (server, client, runtime) = startServer()
        var iterators = try await pausedStreams(client)
        server.kill()
        for index in iterators.indices {
            let (count, error) = await rest(of: &iterators[index])
            if error == nil { #expect(count == Self.batchCount - 1) }
            if let error {
                #expect(count < Self.batchCount)
                guard case PortError.becameInvalid = error else {
                    Issue.record("\(error)")
                    continue
                }
            }
        }
        withExtendedLifetime(runtime) {}
    }

    @Test(.timeLimit(.minutes(10)))
    func `a server with unread elements has not finished at its deadline`() async throws {
        let (server, client, runtime) = startServer()
        var iterators = try await pausedStreams(client)
        _ = try await client.request(Finish(timeout: 100))
        #expect(await Helper { server.wait() }.ended() == 1)
        for index in iterators.indices {
            let (count, error) = await rest(of: &iterators[index])
            #expect(error != nil || count == Self.batchCount - 1)
        }
        withExtendedLifetime(runtime) {}
    }

    @Test(.timeLimit(.minutes(10)))
    func `a server finishes when its readers have all elements`() async throws {
        let (server, client, runtime) = startServer()
        var iterators = try await pausedStreams(client)
        _ = try await client.request(Finish(timeout: 60_000))
        // The server does not wait for a reader that breaks off.
        iterators.removeLast()
        for index in iterators.indices {
            let (count, error) = await rest(of: &iterators[index])
            #expect(count == Self.batchCount - 1)
            #expect(error == nil)
        }
        #expect(await Helper { server.wait() }.ended() == 0)
        withExtendedLifetime(runtime) {}
    }

    @Test(.timeLimit(.minutes(10)))
    func `a server finishes when its reader is killed`() async throws {
        let (server, client, runtime) = startServer()
        let reader = Child(
            [Child.folder + "/TypedPortsTestHelper", "read"],
            environment: ["PORTS_DIRECTORY": folder.path, "PORTS_SHARED_MEMORY": "never"])
        #expect(await waitUntil { (try? await client.request(ExhaustedStreams())) == 1 })
        _ = try await client.request(Finish(timeout: 60_000))
        #expect(server.isRunning)
        reader.kill()
        #expect(await Helper { server.wait() }.ended() == 0)
        withExtendedLifetime(runtime) {}
    }

    // MARK: A server in this process

    private func stand(
        areTwo: Bool, queueLimit: Int = 1000, byteLimit: Int? = nil
    ) throws -> (server: RequestServer, client: RequestClient, runtimes: [PortRuntime]) {
        let one = PortRuntime(directory: folder.path)
        let other = areTwo ? PortRuntime(directory: folder.path) : one
        let port = try LocalMessagePort(
            name: "ends", nameServer: one.nameServer, queueLimit: queueLimit, byteLimit: byteLimit)
        let server = RequestServer(port)
        server.handle(Elements.self) { request in
            let (elements, continuation) = AsyncThrowingStream.makeStream(of: MessageBytes.self)
            // Each fills a batch.
            for _ in 0..<request.count { continuation.yield(MessageBytes([UInt8](repeating: 7, count: 40_000))) }
            continuation.finish(throwing: request.failsAtEnd ? Elements.Failure() : nil)
            return elements
        }
        return (server, RequestClient("ends", nameServer: other.nameServer), [one, other])
    }

    @Test(.timeLimit(.minutes(10)), arguments: [false, true], [false, true])
    func `finishing waits for a reader that pauses`(_ areTwo: Bool, _ failsAtEnd: Bool) async throws {
        let (server, client, runtimes) = try stand(areTwo: areTwo, queueLimit: 1, byteLimit: 100_000)
        let running = Task { try await server.run() }
        var iterator = client.stream(Elements(count: 5, failsAtEnd: failsAtEnd)).makeAsyncIterator()
        #expect(try await iterator.next() != nil)
        let finishing = Task { await server.finish() }
        let waiting = Task { [ledger = server.port.ledger] in await waitUntil { ledger.isFinishing } }
        #expect(await waiting.value)
        #expect(!server.port.ledger.isEmpty)
        let (count, error) = await rest(of: &iterator)
        #expect(count == 4)
        #expect(error as? Elements.Failure == (failsAtEnd ? Elements.Failure() : nil))
        #expect(await finishing.value)
        try await running.value
        withExtendedLifetime(runtimes) {}
    }

    @Test(.timeLimit(.minutes(10)), arguments: [false, true])
    func `a reader of a server that has ended has all that was sent`(_ areTwo: Bool) async throws {
        let (server, client, runtimes) = try stand(areTwo: areTwo)
        let running = Task { try await server.run() }
        var iterator = client.stream(Elements(count: 5)).makeAsyncIterator()
        #expect(try await iterator.next() != nil)
        // The reader pauses, and its process learns that the stream is complete.
        #expect(await server.finish(timeout: .milliseconds(100)) == false)
        try await running.value
        let (count, error) = await rest(of: &iterator)
        #expect(count == 4)
        #expect(error == nil)
        withExtendedLifetime(runtimes) {}
    }

    @Test(.timeLimit(.minutes(10)), arguments: [false, true])
    func `a reader that breaks off ends a handler that waits for it`(_ isCancelled: Bool) async throws {
        let (server, client, runtimes) = try stand(areTwo: true)
        let running = Task { try await server.run() }
        let isPaused = Shared(false)
        let reading = Task {
            var iterator = client.stream(Elements(count: 5)).makeAsyncIterator()
            _ = try await iterator.next()
            isPaused.withLock { $0 = true }
            if isCancelled { while !Task.isCancelled { await Task.yield() } }
            return try await isCancelled ? iterator.next() : nil
        }
        #expect(await waitUntil { isPaused.withLock { $0 } })
        reading.cancel()
        _ = await reading.result
        #expect(await server.finish(timeout: .patience))
        try await running.value
        withExtendedLifetime(runtimes) {}
    }

    @Test(.timeLimit(.minutes(10)))
    func `a stream whose server has ended, and has no successor, names what is missing`() async throws {
        let (server, client, runtimes) = try stand(areTwo: true)
        let running = Task { try await server.run() }
        let named = try #require(client.target as? NamedMessagePort)
        let port = try await named.port(before: .patience)
        #expect(port.isValid)
        server.port.invalidate()
        try await running.value
        // Before its end is told, a request goes to this port.
        #expect(await waitUntil { !port.isValid })
        var iterator = client.stream(Elements(count: 1), timeout: .milliseconds(50)).makeAsyncIterator()
        do {
            _ = try await iterator.next()
            Issue.record("an element of nobody")
        } catch PortError.nameNotFound(let name, _) {
            #expect(name == "ends")
        }
        withExtendedLifetime(runtimes) {}
    }

    @Test(.timeLimit(.minutes(10)))
    func `a stream without its rest ends with an error`() async throws {
        let (server, client, runtimes) = try stand(areTwo: true)
        // It replies at once, as older servers do, and its last batches are lost.
        let serving = Task {
            try await server.port.serveMessages { request in
                guard case .port(let right)? = request.message.components.last else { throw RequestFailure("no port") }
                try await right.send(StreamBatch().message)
                var batch = StreamBatch()
                try batch.append(MessageBytes([1]), CBORCoder())
                try await right.send(batch.message)
                return MachPort.Message(id: StreamMessage.end.rawValue)
            }
        }
        var iterator = client.stream(Elements(count: 5)).makeAsyncIterator()
        #expect(try await iterator.next() != nil)
        #expect(await server.finish(timeout: .patience))
        try await serving.value
        await #expect(throws: PortError.becameInvalid(port: server.port.identity)) { try await iterator.next() }
        #expect(try await iterator.next() == nil)
        withExtendedLifetime(runtimes) {}
    }

    // MARK: Servers that hang, and readers that break off

    @Test(.timeLimit(.minutes(10)), arguments: [false, true])
    func `a server that hangs in mid-stream is an error at the idle timeout`(_ areTwo: Bool) async throws {
        struct Slow: PortStreamRequest { typealias Element = Int }
        let (server, client, runtimes) = try stand(areTwo: areTwo)
        let isEnded = Shared(false)
        server.handle(Slow.self) { _ in
            AsyncStream<Int> { continuation in
                for number in 0..<3 { continuation.yield(number) }
                continuation.onTermination = { _ in isEnded.withLock { $0 = true } }
            }
        }
        let running = Task { try await server.run() }
        var iterator = client.stream(Slow(), idleTimeout: .seconds(3)).makeAsyncIterator()
        for number in 0..<3 { #expect(try await iterator.next() == number) }
        let error = StreamIdleTimeout(request: Slow.requestName, service: "ends", timeout: .seconds(3))
        await #expect(throws: error) { try await iterator.next() }
        #expect(error.description.contains("the stream \(Slow.requestName) of ends sent no element for 3.0 seconds"))
        #expect(try await iterator.next() == nil)
        #expect(await waitUntil { isEnded.withLock { $0 } })
        #expect(await server.finish(timeout: .patience))
        try await running.value
        withExtendedLifetime(runtimes) {}
    }

    @Test(.timeLimit(.minutes(10)), arguments: [false, true])
    func `a reader that breaks off is no failure of its handler`(_ areTwo: Bool) async throws {
        let (server, client, runtimes) = try stand(areTwo: areTwo)
        let outcomes = Shared<[String]>([])
        // The outcome of a handler is what `serve` would log.
        let serving = Task {
            try await server.port.serveMessages { request in
                do {
                    let reply = try await server.answer(request)
                    outcomes.withLock { $0.append("reply") }
                    return reply
                } catch {
                    outcomes.withLock { $0.append(error is CancellationError ? "cancelled" : "\(error)") }
                    throw error
                }
            }
        }
        for count in [1, 2, 30, 100] {
            for _ in 0..<10 {
                var iterator = client.stream(Elements(count: count)).makeAsyncIterator()
                #expect(try await iterator.next() != nil)
            }
        }
        #expect(await server.finish(timeout: .patience))
        try await serving.value
        #expect(outcomes.withLock { $0.count } == 40)
        #expect(outcomes.withLock { $0.allSatisfy { ["reply", "cancelled"].contains($0) } })
        withExtendedLifetime(runtimes) {}
    }
}
