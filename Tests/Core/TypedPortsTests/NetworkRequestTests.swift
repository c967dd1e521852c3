import Glibc
import OwnThread
import Ports
import RunLoopLocks
import RunLoops
import TestSupport
import Testing

@testable import TypedPorts

/// The seam for transports between machines: a route that leads straight to a server of the same process. No test blocks
/// its thread, except one.
@Suite(.ownThread) struct NetworkRequestTests {
    struct Ask: PortRequest, NetworkRequest {
        typealias Reply = String
        var text = ""
        var failure: Wrong?
    }
    struct Wrong: Error, Codable, Hashable { var number: Int }
    struct Fallible: PortRequest, NetworkRequest {
        typealias Reply = EmptyReply
        typealias Failure = Wrong
    }
    struct Count: PortStreamRequest, NetworkRequest {
        typealias Element = Int
        var limit: Int
    }
    struct Secret: PortRequest { typealias Reply = String }

    /// What a network would do: hands a request to the server as one from another machine.
    private final class ShortWay: RequestRoute {
        let server: RequestServer
        let service = PortIdentity(service: "short", network: "nowhere://")
        let networkProtocol = "test"
        let sender = NetworkSender(networkProtocol: "test", relay: "nowhere://")

        init(_ server: RequestServer) { self.server = server }

        private func message(_ message: MachPort.Message) throws -> MachPort.Message {
            let components = message.components.compactMap { if case .bytes(let bytes) = $0 { bytes } else { nil } }
            return server.message(of: try server.networkRequest(id: message.id), components, from: sender.bytes)
        }

        private func ask(_ message: MachPort.Message) async throws -> MachPort.Message {
            try await withCheckedThrowingContinuation { continuation in
                let work = server.admit(message, from: sender) { handler in
                    let result: Result<MachPort.Message, any Error>
                    do { result = .success(try await handler()) } catch { result = .failure(error) }
                    continuation.resume(with: result)
                } refuse: { limit in
                    let busy = limit.map { PortError.serverBusy(port: self.service, limit: $0) }
                    continuation.resume(throwing: busy ?? .refused(port: self.service))
                }
                if let work { Task(operation: work) }
            }
        }

        nonisolated(nonsending) func request(
            _ request: MachPort.Message, timeout: Duration, mayRepeat: Bool
        ) async throws -> MachPort.Message {
            while true {
                do {
                    return try await ask(message(request))
                } catch let failure as RequestFailure {
                    throw PortError.failed(port: service, failure)
                } catch PortError.refused {
                    // The server does not run yet.
                    try await Task.sleep(for: .milliseconds(1))
                }
            }
        }

        nonisolated(nonsending) func stream(
            _ request: MachPort.Message, before deadline: ContinuousClock.Instant
        ) async throws -> any StreamSource { try await server.stream(message(request), before: deadline) }
    }

    private let server: RequestServer
    private let client: RequestClient

    init() throws {
        server = try RequestServer()
        client = RequestClient(ShortWay(server), coder: CBORCoder())
    }

    private func serving<Value>(_ body: () async throws -> Value) async throws -> Value {
        let running = Task { [server] in try await server.run() }
        let value = try await body()
        #expect(await server.finish(timeout: .patience))
        try await running.value
        return value
    }

    @Test func `a marked request has its reply, its typed error and its stream from another machine`() async throws {
        server.handle(Ask.self) { $0.text + "!" }
        server.handle(Fallible.self) { _ in throw Wrong(number: 7) }
        server.handle(Count.self) { count in
            AsyncStream { continuation in
                for number in 0..<count.limit { continuation.yield(number) }
                continuation.finish()
            }
        }
        try await serving {
            #expect(try await client.request(Ask(text: "hello")) == "hello!")
            await #expect(throws: Wrong(number: 7)) { try await client.request(Fallible()) }
            var sum = 0
            for try await number in client.stream(Count(limit: 1000)) { sum += number }
            #expect(sum == 499_500)
        }
    }

    @Test func `an unmarked request does not leave the machine`() async throws {
        server.handle(Secret.self) { _ in "secret" }
        try await serving {
            await #expect(throws: NetworkRequestError.notMarked(request: "NetworkRequestTests.Secret")) {
                try await client.request(Secret())
            }
            // Whatever another program sends, the server takes no such request from outside.
            let route = ShortWay(server)
            let message = try CBORCoder().message(id: Secret.messageID, Secret())
            await #expect(throws: PortError.self) {
                try await route.request(message, timeout: .seconds(1), mayRepeat: false)
            }
        }
    }

    @Test func `a handler that wants a local sender gets no request from another machine`() async throws {
        server.handle(Ask.self) { ask, request in "\(request.message.sender?.pid ?? 0)" }
        try await serving {
            do {
                _ = try await client.request(Ask())
                Issue.record("the handler was called")
            } catch {
                #expect("\(error)".contains("from other machines"))
            }
        }
    }

    @Test func `a handler learns the origin of a request`() async throws {
        server.handle(Ask.self) { (ask: Ask, origin: RequestOrigin) in
            switch origin {
            case .local(let request): "local \(request.message.sender?.pid == getpid())"
            case .network(let sender): "\(sender.networkProtocol) \(sender.relay)"
            }
        }
        let replies = try await serving {
            [try await client.request(Ask()), try await RequestClient(server.sendRight).request(Ask())]
        }
        #expect(replies == ["test nowhere://", "local true"])
    }

    @Test func `requests of both ways share a lane without a name`() async throws {
        let (gate, opener) = AsyncStream.makeStream(of: Void.self)
        let most = Lock((now: 0, most: 0))
        server.handle(Ask.self, in: RequestLane(atMost: 1)) { _ in
            most.withLock { ($0.now, $0.most) = ($0.now + 1, max($0.most, $0.now + 1)) }
            for await _ in gate {}
            most.withLock { $0.now -= 1 }
            return ""
        }
        try await serving {
            let local = RequestClient(server.sendRight)
            async let replies = [client.request(Ask()), local.request(Ask()), client.request(Ask())]
            #expect(await waitUntil { most.withLock { $0.most } == 1 })
            opener.finish()
            let all = try await replies
            #expect(all == ["", "", ""])
        }
        #expect(most.withLock { $0.most } == 1)
    }

    @Test func `a client that asks its machine first takes the network only without a server here`() async throws {
        let folder = TemporaryFolder()
        let names = PortNameServer(directory: folder.path)
        server.handle(Ask.self) { _ in "far" }
        let both = RequestClient(ShortWay(server), localFirst: names, coder: CBORCoder())
        try await serving {
            #expect(try await both.request(Ask()) == "far")
            let near = try RequestServer(name: "short", nameServer: names)
            near.handle(Ask.self) { _ in "near" }
            near.handle(Secret.self) { _ in "secret" }
            let running = Task { try await near.run() }
            #expect(try await both.request(Ask()) == "near")
            #expect(try await both.request(Secret()) == "secret")
            await near.finish()
            try await running.value
            #expect(try await both.request(Ask()) == "far")
        }
    }

    @Test func `a blocked thread gets the reply of another machine, and its loop runs in the reply mode`() throws {
        server.handle(Ask.self) { $0.text }
        let running = Task { [server] in try await server.run() }
        let count = Lock(0)
        let timer = ThreadRunLoop.current.addTimer(after: .milliseconds(1), repeats: true, forMode: "test") { _ in
            count.withLock { $0 += 1 }
        }
        #expect(try client.request(Ask(text: "a")) == "a")
        #expect(count.withLock { $0 } == 0)
        var reply = ""
        // The timer has its turns while replies are on their way.
        while count.withLock({ $0 }) == 0 { reply = try client.request(Ask(text: "b"), replyMode: "test") }
        #expect(reply == "b")
        timer.invalidate()
        running.cancel()
    }
}
