import Foundation
import InMemoryTracing
import PortsTracing
import Testing
import TracedRequests
import Tracing
import TypedPorts
import XPC

/// A registry directory, and a process that serves in it.
private final class Peer {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("traced-\(UUID().uuidString.prefix(8))")
    let runtime: PortRuntime
    let process = Process()

    init(isTraced: Bool = true) throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        runtime = PortRuntime(directory: folder.appendingPathComponent("ports").path)
        let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        process.executableURL = URL(fileURLWithPath: program).deletingLastPathComponent()
            .appendingPathComponent("traced-server")
        process.arguments = ["traced"] + (isTraced ? [] : ["untraced"])
        process.environment = ["PORTS_DIRECTORY": runtime.directory]
        try process.run()
    }

    deinit {
        // It inherits the signals that the threads of Swift's pool block.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        try? FileManager.default.removeItem(at: folder)
    }

    var client: RequestClient { RequestClient("traced", nameServer: runtime.nameServer) }
    var pid: String { "\(process.processIdentifier)" }
}

private let patience = Duration.seconds(30)

@Suite struct TracingTests {
    @Test func `a request's handler in another process is a child of the asker's span`() async throws {
        let (peer, tracer) = (try Peer(), InMemoryTracer())
        let client = peer.client.traced(by: tracer)
        let reply = try await tracer.withSpan("whole") { _ in
            try await client.request(Double(21), timeout: patience)
        }
        #expect(reply == 42)
        let mine = tracer.finishedSpans.map(SpanFacts.init)
        let theirs = try await peer.client.request(Spans(), timeout: patience)
        let (asker, whole) = (try #require(mine.first), try #require(mine.last))
        let handler = try #require(theirs.first { $0.name == "traced/Double" })
        let inner = try #require(theirs.first { $0.name == "arithmetic" })

        #expect((asker.name, asker.kind, asker.parent) == ("traced/Double", "client", whole.span))
        #expect((handler.kind, handler.parent, inner.parent) == ("server", asker.span, handler.span))
        #expect(Set([whole, asker, handler, inner].map(\.trace)).count == 1)
        #expect(
            asker.attributes == [
                "rpc.system.name": "swift-ports", "rpc.method": "traced/Double", "peer.pid": peer.pid,
                "network.transport": "unix",
            ])
        #expect(handler.attributes["peer.pid"] == "\(getpid())")
        #expect(asker.errors.isEmpty)
        #expect(handler.errors.isEmpty)
    }

    @Test func `what a handler throws is an error of both spans`() async throws {
        let (peer, tracer) = (try Peer(), InMemoryTracer())
        let client = peer.client.traced(by: tracer)
        await #expect(throws: Double.Failure.negative) { try await client.request(Double(-1), timeout: patience) }
        let theirs = try await peer.client.request(Spans(), timeout: patience)
        let span = try #require(tracer.finishedSpans.first)
        #expect(span.status?.code == .error)
        #expect(SpanFacts(span).errors == ["negative"])
        #expect(SpanFacts(span).attributes["rpc.method"] == "traced/Double")
        #expect(SpanFacts(span).attributes["error.type"] == "Double.Failure")
        let handler = try #require(theirs.first { $0.name == "traced/Double" })
        #expect(handler.parent == span.spanID)
        #expect(handler.errors.count == 1)
        #expect(handler.errors == ["negative"])
        #expect(handler.attributes["error.type"] == "Double.Failure")
    }

    @Test func `a stream has spans from its request to its end`() async throws {
        let (peer, tracer) = (try Peer(), InMemoryTracer())
        let client = peer.client.traced(by: tracer)
        var sum = 0
        for try await number in client.stream(Count(to: 4), timeout: patience) { sum += number }
        #expect(sum == 10)
        await #expect(throws: PortError.self) {
            for try await _ in client.stream(Count(to: 13), timeout: patience) {}
        }
        // Given up in the middle.
        for try await _ in client.stream(Count(to: 1000), timeout: patience) { break }

        let mine = tracer.finishedSpans.map(SpanFacts.init)
        #expect(mine.map(\.errors.count) == [0, 1, 0])
        #expect(tracer.activeSpans.isEmpty)
        var theirs: [SpanFacts] = []
        // The server's spans end a moment later.
        for _ in 0..<1000 where theirs.count < 3 {
            theirs = try await peer.client.request(Spans(), timeout: patience).filter { $0.name == "traced/Count" }
        }
        #expect(Set(theirs.map(\.parent)) == Set(mine.map(\.span)))
        #expect(theirs.first { $0.parent == mine[1].span }?.errors == ["negative"])
    }

    @Test func `a server that knows nothing of tracing answers a traced client, and the reverse`() async throws {
        let peer = try Peer(isTraced: false)
        let tracer = InMemoryTracer()
        let client = peer.client.traced(by: tracer)
        #expect(try await client.request(Double(2), timeout: patience) == 4)
        var sum = 0
        for try await number in client.stream(Count(to: 3), timeout: patience) { sum += number }
        #expect(sum == 6)
        #expect(tracer.finishedSpans.count == 2)

        let traced = try Peer()
        #expect(try await traced.client.request(Double(3), timeout: patience) == 6)
        let spans = try await traced.client.request(Spans(), timeout: patience)
        #expect(spans.first { $0.name == "traced/Double" }?.parent == nil)
    }

    @Test func `a port without a name gives its spans no name that holds a process's id`() async throws {
        let tracer = InMemoryTracer()
        let server = try RequestServer()
        server.handle(Double.self) { 2 * $0.number }
        server.trace(by: tracer)
        async let serving: Void = server.run()
        let client = RequestClient(server.sendRight).traced(by: tracer)
        #expect(try await client.request(Double(4), timeout: patience) == 8)
        let remote = RemoteMessagePort(server.sendRight)
        _ = try? await remote.tracedRequest(MachPort.Message(), operation: "odd", timeout: patience, tracer: tracer)
        server.port.invalidate()
        try await serving
        let spans = tracer.finishedSpans.map(SpanFacts.init)
        #expect(spans.map(\.name).sorted() == ["Double", "Double", "odd"])
        #expect(Set(spans.map { $0.attributes["rpc.method"] }) == ["Double", "odd"])
    }

    @Test func `a plain request carries the context as one more component, which withSpan takes off`() async throws {
        let (near, far) = (InMemoryTracer(), InMemoryTracer())
        let port = try LocalMessagePort()
        async let serving: Void = port.serveMessages { request in
            try await request.withSpan("echo", tracer: far) { message in
                await Task.yield()
                if message.components.isEmpty { throw RequestFailure("nothing to echo") }
                return message
            }
        }
        let remote = RemoteMessagePort(port.sendRight)
        let message = MachPort.Message(id: 1, [.bytes([1, 2]), .bytes([3])])
        let reply = try await remote.tracedRequest(message, operation: "echo", timeout: patience, tracer: near)
        #expect(reply.components == message.components)
        await #expect(throws: PortError.self) {
            try await remote.tracedRequest(MachPort.Message(), operation: "echo", timeout: patience, tracer: near)
        }
        // Without a context, nothing is taken off.
        #expect(try await remote.request(message, timeout: patience).components == message.components)
        port.invalidate()
        try await serving

        let (asked, handled) = (near.finishedSpans, far.finishedSpans)
        #expect(asked.count == 2)
        #expect(handled.count == 3)
        #expect(handled.map(\.parentSpanID) == [asked[0].spanID, asked[1].spanID, nil])
        #expect(handled.map(\.errors.count) == [0, 1, 0])
        #expect(asked[1].errors.count == 1)
        #expect(handled[0].attributes.get("network.transport") == nil)
    }

    @Test func `a context passes from a blocked thread to a handler on a loop's thread`() async throws {
        let tracer = InMemoryTracer()
        let port = try LocalMessagePort(requestHandler: { request in
            let answer = request.withSpan("echo", tracer: tracer) { message in
                tracer.withSpan("inner") { _ in message }
            }
            try? request.replyRight?.reply(with: answer)
        })
        let (serving, asking) = (try await RunLoopThread(), try await RunLoopThread())
        try port.schedule(in: serving.loop)
        let remote = RemoteMessagePort(port.sendRight)
        let reply = try await withCheckedThrowingContinuation { done in
            let call: @Sendable () -> Void = {
                done.resume(
                    with: Result {
                        try tracer.withSpan("whole") { _ in
                            try remote.tracedRequest(
                                MachPort.Message(id: 1, [.bytes([7])]), operation: "echo", timeout: patience,
                                tracer: tracer)
                        }
                    })
            }
            do { try asking.loop.perform(call) } catch { done.resume(throwing: error) }
        }
        #expect(reply.components == [.bytes([7])])
        port.invalidate()

        let spans = tracer.finishedSpans.map(SpanFacts.init)
        let asker = try #require(spans.first { $0.kind == "client" })
        let handler = try #require(spans.first { $0.kind == "server" })
        #expect(asker.parent == spans.first { $0.name == "whole" }?.span)
        #expect(handler.parent == asker.span)
        #expect(spans.first { $0.name == "inner" }?.parent == handler.span)
    }

    @Test func `a request that is cancelled, or whose server is killed, ends its span with the error`() async throws {
        let (peer, tracer) = (try Peer(isTraced: false), InMemoryTracer())
        let client = peer.client.traced(by: tracer)
        #expect(try await client.request(Double(1), timeout: patience) == 2)
        kill(peer.process.processIdentifier, SIGSTOP)
        // It could answer until all its threads have stopped.
        var info = siginfo_t()
        while waitid(P_PID, id_t(peer.process.processIdentifier), &info, WSTOPPED) != 0, errno == EINTR {}
        let cancelled = Task { try await client.request(Double(2), timeout: patience) }
        while tracer.activeSpans.isEmpty { await Task.yield() }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        let asking = Task { try await client.request(Double(3), timeout: patience) }
        while tracer.activeSpans.isEmpty { await Task.yield() }
        kill(peer.process.processIdentifier, SIGKILL)
        await #expect(throws: PortError.self) { try await asking.value }

        let spans = tracer.finishedSpans.map(SpanFacts.init)
        #expect(spans.map { $0.attributes["error.type"] } == [nil, "CancellationError", "PortError.becameInvalid"])
        #expect(tracer.activeSpans.isEmpty)
    }

    /// Runs a body that blocks on a thread of its own.
    private func onThread(_ body: @escaping @Sendable () throws -> Void) async throws {
        try await withCheckedThrowingContinuation { done in
            Thread.detachNewThread { done.resume(with: Result(catching: body)) }
        }
    }

    @Test func `messages of a session of XPC have spans at both ends, and so have their handlers`() async throws {
        try await onThread(checkSpansOfSession)
    }

    @Sendable private func checkSpansOfSession() throws {
        let (client, server) = (InMemoryTracer(), InMemoryTracer())
        let name = "traced.session.\(UUID().uuidString.prefix(8))"
        let listener = try XPCListener(service: name, options: .inactive) { request in
            request.accept { (number: Int) -> (any Encodable)? in
                server.withSpan("inner") { _ in number < 0 ? nil : number + 1 }
            }
        }
        listener.trace(by: server)
        try listener.activate()
        defer { listener.cancel() }
        let session = try XPCSession(machService: name)
        session.trace(by: client)
        try session.send(10)
        for number in 0..<3 {
            let reply: Int = try session.sendSync(number)
            #expect(reply == number + 1)
        }
        // No reply follows, which is an error at the asker.
        #expect(throws: XPCRichError.self) { let _: Int = try session.sendSync(-1) }
        session.cancel(reason: "done")

        let asked = client.finishedSpans.map(SpanFacts.init)
        let handled = server.finishedSpans.map(SpanFacts.init)
        let handlers = handled.filter { $0.kind == "server" }
        #expect(asked.map(\.name) == Array(repeating: "\(name)/XPC message", count: 5))
        #expect(handlers.map(\.name) == asked.map(\.name))
        #expect(handlers.map(\.parent) == asked.map(\.span))
        #expect(handled.filter { $0.name == "inner" }.map(\.parent) == handlers.map(\.span))
        #expect(asked.map { $0.attributes["error.type"] } == [nil, nil, nil, nil, "XPCRichError"])
        #expect(client.activeSpans.isEmpty && server.activeSpans.isEmpty)
    }

    @Test func `an end of a session without spans passes over the context`() async throws {
        try await onThread(checkSessionWithOneTracer)
    }

    @Sendable private func checkSessionWithOneTracer() throws {
        let name = "traced.session.\(UUID().uuidString.prefix(8))"
        let listener = try XPCListener(service: name) { request in request.accept { (number: Int) in number + 1 } }
        defer { listener.cancel() }
        let (session, tracer) = (try XPCSession(machService: name), InMemoryTracer())
        session.trace(by: tracer)
        for number in 0..<3 {
            let reply: Int = try session.sendSync(number)
            #expect(reply == number + 1)
        }
        #expect(tracer.finishedSpans.count == 3)
    }

    @Test func `what looks like a context and is none is passed over`() async throws {
        let (peer, tracer) = (try Peer(), InMemoryTracer())
        let coder = CBORCoder()
        let right = try await peer.runtime.nameServer.waitForPort(forName: "traced", before: .now + patience)
        let remote = RemoteMessagePort(right)
        var id: UInt32 = 2_166_136_261
        for byte in Double.requestName.utf8 { id = (id ^ UInt32(byte)) &* 16_777_619 }
        let magic = Array("PORTCTX1".utf8)
        for bytes in [
            [], [0xA0], magic, magic + [0], magic + [0, 1], magic + [0, 1, 65], magic + [0, 1, 65, 0, 2, 66],
            magic + [0, 1, 0xFF, 0, 1, 0xFF], magic + [0xFF, 0xFF, 65], magic + [UInt8](repeating: 0, count: 9000),
        ] {
            var message = try coder.message(id: id, Double(1))
            message.components.append(.bytes(bytes))
            let reply = try await remote.request(message, timeout: patience)
            #expect(try coder.decode(Int.self, from: reply) == 2)
        }
        _ = tracer
    }
}
