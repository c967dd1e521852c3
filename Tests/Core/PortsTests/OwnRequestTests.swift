import Dispatch
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Requests to ports that the asking thread serves itself.
@Suite(.ownThread) struct OwnRequestTests {
    let sandbox = Sandbox()

    /// A port whose handler asks the port itself, and answers its own request.
    private func asking(
        _ errors: Shared<[String]>, _ asked: Latch, _ ask: @escaping @Sendable (RemoteMessagePort) throws -> Void
    ) throws -> LocalMessagePort {
        let remote = Shared<RemoteMessagePort?>(nil)
        let server = try LocalMessagePort(name: "self", nameServer: sandbox.names) { id, data in
            guard id == 1, let remote = remote.withLock({ $0 }) else { return data }
            let error = errorKind { try ask(remote) }
            errors.withLock { $0.append(error) }
            asked.open()
            return nil
        }
        remote.withLock { $0 = RemoteMessagePort(server.sendRight) }
        return server
    }

    private func outcome(
        of ask: @escaping @Sendable (RemoteMessagePort) throws -> Void,
        serve: (LocalMessagePort) throws -> [RunLoopThread]
    ) throws -> String? {
        let (errors, asked) = (Shared<[String]>([]), Latch())
        let server = try asking(errors, asked, ask)
        let threads = try serve(server)
        defer {
            for thread in threads { thread.stop() }
            server.invalidate()
        }
        try RemoteMessagePort(server.sendRight).send(id: 1)
        #expect(asked.wait(until: .patience))
        return errors.withLock { $0.first }
    }

    private func onALoop() -> (LocalMessagePort) throws -> [RunLoopThread] {
        { server in
            let thread = try RunLoopThread()
            try server.schedule(in: thread.loop)
            return [thread]
        }
    }

    @Test func `a handler that asks the port of its own loop is told at once`() throws {
        let names = sandbox.names
        let forms: [@Sendable (RemoteMessagePort) throws -> Void] = [
            { _ = try $0.request(id: 2) },
            { _ = try $0.request(id: 2, sendTimeout: .seconds(60), replyTimeout: .seconds(60)) },
            { _ = try $0.request(MachPort.Message(id: 2)) },
            { _ = try $0.request(id: 2, replyMode: "elsewhere") },
            { _ in _ = try NamedMessagePort("self", nameServer: names).request(MachPort.Message(id: 2)) },
        ]
        for form in forms { #expect(try outcome(of: form, serve: onALoop()) == "servedOnlyHere") }
    }

    @Test func `a handler that asks the port of its own dispatch queue is told at once`() throws {
        let ask: @Sendable (RemoteMessagePort) throws -> Void = { _ = try $0.request(id: 2, replyMode: .default) }
        #expect(
            try outcome(of: ask) { server in
                try server.setQueue(DispatchQueue(label: "own"))
                return []
            } == "servedOnlyHere")
    }

    @Test func `a loop that has not begun to serve its port is told, too`() throws {
        let server = try LocalMessagePort(nameServer: sandbox.names) { _, data in data }
        try server.schedule(in: .current)
        let error = portError { _ = try RemoteMessagePort(server.sendRight).request(id: 2) }
        #expect(error == .servedOnlyHere(port: server.identity))
        #expect(error?.description.hasPrefix("only this thread serves \(server.identity), and not while") == true)
        #expect(server.port.sendRight.channel.sentCount == 0)
    }

    @Test(arguments: [.default, .common, "own"] as [ThreadRunLoop.Mode])
    func `a handler may ask a port that the reply mode serves`(_ mode: ThreadRunLoop.Mode) throws {
        let replyMode = mode == .common ? .default : mode
        let ask: @Sendable (RemoteMessagePort) throws -> Void = {
            let answer = try $0.request(id: 2, [7], replyMode: replyMode)
            #expect(answer == [7])
        }
        let outcome = try outcome(of: ask) { server in
            let threads = try onALoop()(server)
            try server.schedule(in: threads[0].loop, forMode: mode)
            return threads
        }
        #expect(outcome == "none")
    }

    @Test func `a handler may ask a port that another loop or a queue serves, too`() throws {
        let ask: @Sendable (RemoteMessagePort) throws -> Void = {
            let answer = try $0.request(id: 2, [7])
            #expect(answer == [7])
        }
        #expect(try outcome(of: ask) { try onALoop()($0) + onALoop()($0) } == "none")
        let outcome = try outcome(of: ask) { server in
            try server.setQueue(DispatchQueue(label: "beside"))
            return try onALoop()(server)
        }
        #expect(outcome == "none")
    }

    @Test func `a port that a thread or a task takes from may be asked`() throws {
        let server = try LocalMessagePort(nameServer: sandbox.names) { _, data in data }
        try server.schedule(in: .current)
        #expect(errorKind { _ = try server.port.receive(before: .now) } == "receiveTimedOut")
        let remote = RemoteMessagePort(server.sendRight)
        #expect(errorKind { _ = try remote.request(id: 2, timeout: .milliseconds(1)) } == "receiveTimedOut")
        // A loop leaves the requests of a port without a handler to tasks.
        let bare = try LocalMessagePort(nameServer: sandbox.names)
        try bare.schedule(in: .current)
        let other = RemoteMessagePort(bare.sendRight)
        #expect(errorKind { _ = try other.request(id: 2, timeout: .milliseconds(1)) } == "receiveTimedOut")
    }
}
