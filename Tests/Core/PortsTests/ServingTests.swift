import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Tasks that answer requests, of the same runtime and of another. No test blocks its thread.
@Suite(.ownThread) struct ServingTests {
    let sandbox = Sandbox()

    /// A server's runtime, and an asker's, which may be the same.
    private func runtimes(areTwo: Bool) -> (server: PortRuntime, asker: PortRuntime) {
        let one = PortRuntime(directory: sandbox.path)
        return (one, areTwo ? PortRuntime(directory: sandbox.path) : one)
    }

    /// A served port, and the way to ask it.
    private func served(
        areTwo: Bool, atMost limit: Int = 100,
        _ handler: @escaping @Sendable (MessagePortRequest) async throws -> [UInt8]?
    ) async throws -> (
        server: LocalMessagePort, remote: RemoteMessagePort, serving: Task<Void, any Error>,
        kept: (server: PortRuntime, asker: PortRuntime)
    ) {
        let runtimes = runtimes(areTwo: areTwo)
        let server = try LocalMessagePort(name: "served", nameServer: runtimes.server.nameServer)
        let serving = Task { try await server.serve(atMost: limit, handler) }
        let remote = try await RemoteMessagePort(
            name: "served", nameServer: runtimes.asker.nameServer, before: .patience)
        return (server, remote, serving, runtimes)
    }

    private nonisolated func error(_ body: () async throws -> Void) async -> PortError? {
        do { try await body() } catch { return error as? PortError }
        return nil
    }

    @Test(arguments: [false, true]) func `tasks answer requests`(_ areTwo: Bool) async throws {
        let (server, remote, serving, kept) = try await served(areTwo: areTwo) { request in
            request.data.map { $0 + [UInt8(request.id)] }
        }
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<200 as Range<UInt32> {
                group.addTask { try await remote.request(id: number, [1]) == [1, UInt8(number)] }
            }
            for try await isRight in group { #expect(isRight) }
        }
        #expect(try await remote.request(id: 1) == nil)
        server.invalidate()
        try await serving.value
        withExtendedLifetime(kept) {}
    }

    @Test(arguments: [false, true]) func `what a handler throws reaches the asker`(_ areTwo: Bool) async throws {
        struct Odd: Error, CustomStringConvertible { let description = "the number is odd" }
        let (server, remote, serving, kept) = try await served(areTwo: areTwo) { request in
            switch request.id {
            case 1: throw Odd()
            case 2: throw RequestFailure("no such key", data: [1, 2])
            case 3: throw CancellationError()
            default: throw RequestFailure("")
            }
        }
        let port = remote.identity
        #expect(
            await error { _ = try await remote.request(id: 1) }
                == .failed(port: port, RequestFailure("the number is odd")))
        #expect(
            await error { _ = try await remote.request(id: 2) }
                == .failed(port: port, RequestFailure("no such key", data: [1, 2])))
        #expect(await error { _ = try await remote.request(id: 3) } == .unanswered(port: port))
        #expect(await error { _ = try await remote.request(id: 4) } == .failed(port: port, RequestFailure("")))
        server.invalidate()
        try await serving.value
        withExtendedLifetime(kept) {}
    }

    /// Handlers that wait until they are told to go on.
    private actor Gate {
        private(set) var running = 0
        private(set) var most = 0
        private var isOpen = false
        private var waiting: [CheckedContinuation<Void, Never>] = []

        func pass() async {
            running += 1
            most = max(most, running)
            if !isOpen { await withCheckedContinuation { waiting.append($0) } }
            running -= 1
        }

        func open() {
            isOpen = true
            for continuation in waiting { continuation.resume() }
            waiting = []
        }

        /// Waits until this number of handlers runs.
        nonisolated func isReached(by count: Int) async -> Bool {
            await waitUntil { await running >= count }
            return await running == count
        }
    }

    @Test(arguments: [false, true])
    func `requests that wait for their lane are refused when the port finishes`(_ areTwo: Bool) async throws {
        let gate = Gate()
        let (server, remote, serving, kept) = try await served(areTwo: areTwo) { request in
            await gate.pass()
            return request.data
        }
        server.setKind(RequestKind(name: "Slow", lane: RequestLane(atMost: 1)), ofRequests: 1)
        let outcomes = (0..<50).map { _ in Task { await error { _ = try await remote.request(id: 1) } } }
        #expect(await gate.isReached(by: 1))
        #expect(await waitUntil { server.port.receiver.intake.totals.taken == 50 })
        let finishing = Task { await server.finish(before: .patience) }
        #expect(await waitUntil { kept.asker.replies.pending.pendingCount(to: remote.sendRight.id) == 1 })
        await gate.open()
        #expect(await finishing.value)
        var refused = 0
        for outcome in outcomes {
            guard let error = await outcome.value else { continue }
            #expect(error == .refused(port: remote.identity))
            refused += 1
        }
        #expect(refused == 49)
        #expect(await gate.most == 1)
        try await serving.value
        withExtendedLifetime(kept) {}
    }

    @Test(arguments: [false, true])
    func `as many handlers run as may, and a port that finishes answers what was taken and refuses the rest`(
        _ areTwo: Bool
    ) async throws {
        let gate = Gate()
        let (server, remote, serving, kept) = try await served(areTwo: areTwo, atMost: 3) { request in
            await gate.pass()
            return request.data
        }
        let port = remote.identity
        func ask(_ count: Int) -> Task<[PortError?], Never> {
            Task {
                await withTaskGroup(of: PortError?.self) { group in
                    for _ in 0..<count { group.addTask { await error { _ = try await remote.request(id: 1) } } }
                    return await group.reduce(into: []) { $0.append($1) }
                }
            }
        }
        let outcomes = ask(10)
        #expect(await gate.isReached(by: 3))
        #expect(server.port.receiver.look().statistics.received == 3)
        let finishing = Task { await server.finish() }
        // The three still run.
        #expect(await waitUntil { kept.asker.replies.pending.pendingCount(to: port.id) == 3 })
        #expect(await ask(5).value == Array(repeating: .refused(port: port), count: 5))
        #expect(
            await error { _ = try await RemoteMessagePort(name: "served", nameServer: kept.asker.nameServer) } != nil)
        #expect(server.isValid)
        #expect(await gate.most == 3)
        await gate.open()
        #expect(await finishing.value)
        #expect(!server.isValid)
        try await serving.value
        let all = await outcomes.value
        #expect(all.count { $0 == nil } == 3)
        #expect(all.count { $0 == .refused(port: port) } == 7)
    }

    @Test(arguments: [false, true])
    func `what comes while a port finishes is refused, and cancels no handler`(_ areTwo: Bool) async throws {
        let gate = Gate()
        let (server, remote, serving, kept) = try await served(areTwo: areTwo) { request in
            await gate.pass()
            try Task.checkCancellation()
            return request.data
        }
        let asking = Task { try await remote.request(id: 1, [7]) }
        #expect(await gate.isReached(by: 1))
        // Its task still takes requests.
        server.ledger.finish()
        for _ in 0..<3 {
            #expect(await error { _ = try await remote.request(id: 2) } == .refused(port: remote.identity))
        }
        await gate.open()
        #expect(try await asking.value == [7])
        #expect(await server.finish())
        try await serving.value
        withExtendedLifetime(kept) {}
    }

    @Test func `a server ends also when all its handlers wait for ever, and cancels them`() async throws {
        let (server, remote, serving, kept) = try await served(areTwo: false, atMost: 2) { _ in
            try await Task.sleep(for: .seconds(3600))
            return nil
        }
        let asking = (0..<2).map { _ in Task { await error { _ = try await remote.request(id: 1) } } }
        #expect(await waitUntil { server.ledger.serving.lanes.first?.look.count == 2 })
        #expect(await !server.finish(before: .now + .milliseconds(20)))
        try await serving.value
        for asker in asking { #expect(await asker.value != nil) }
        #expect(server.ledger.serving.lanes.isEmpty)
        withExtendedLifetime(kept) {}
    }

    @Test func `senders are done when all were told and each is done, also those that come later`() {
        let senders = (0..<3).map { _ in Incarnation.random() }
        var state = FinishState()
        func isDone(_ effects: [FinishState.Effect]) -> Bool {
            effects.contains { effect in
                if case .done(let done) = effect { done === state.areDone(1) } else { false }
            }
        }
        state.begin(1, RequestLedger(RequestNotices()))
        _ = state.tell(senders[0], 1, at: .now)
        #expect(!isDone(state.finished(senders[0], 1)), "the second is not told yet")
        _ = state.tell(senders[1], 1, at: .now)
        #expect(!isDone(state.tellersEnd(1)))
        #expect(isDone(state.finished(senders[1], 1)))
        let areDone = state.areDone(1)
        _ = state.tell(senders[2], 1, at: .now)
        #expect(areDone !== state.areDone(1))
        #expect(isDone(state.finished(senders[2], 1)))
    }

    @Test func `processes that watch a hidden port for the first time are told, and not waited for`() {
        let (sender, newcomer) = (Incarnation.random(), Incarnation.random())
        var state = FinishState()
        state.begin(1, nil)
        #expect(state.tell(sender, 1, at: .now)?.look != nil)
        _ = state.tellersEnd(1)
        state.awaitNoOthers(1)
        let told = state.tell(newcomer, 1, at: .now)
        #expect(told?.moves == true && told?.look == nil)
        // A sender whose connection was cut may have messages on their way.
        _ = state.connectionEnded(sender)
        _ = state.tell(sender, 1, at: .now)
        #expect(state.areDone(1)?.value == nil)
        let areDone = state.areDone(1)
        let isDone = state.finished(sender, 1).contains { effect in
            if case .done(let done) = effect { done === areDone } else { false }
        }
        #expect(isDone)
        #expect(state.givenUp(1).isEmpty)
    }

    @Test func `a port that finishes waits for rights, not for ever, and on any thread`() async throws {
        let rights = Shared<[ReplyRight]>([])
        let server = try LocalMessagePort { (request: MessagePortRequest) in
            if let right = request.replyRight { rights.withLock { $0.append(right) } }
        }
        let thread = try await RunLoopThread()
        try server.schedule(in: thread.loop)
        let remote = RemoteMessagePort(server.sendRight)
        let asking = (0..<2).map { _ in Task { await error { _ = try await remote.request(id: 1) } } }
        #expect(await waitUntil { rights.withLock { $0.count } == 2 })
        // The loop that has served the port is not needed.
        thread.stop()
        try rights.withLock { $0.removeFirst() }.reply()
        let finishing = Helper { server.finish(before: .now + .milliseconds(50)) }
        #expect(await finishing.ended() == false)
        #expect(!server.isValid)
        let outcomes = [await asking[0].value, await asking[1].value]
        #expect(outcomes.contains(nil))
        #expect(outcomes.contains(.becameInvalid(port: remote.sendRight.identity)))
        #expect(try await LocalMessagePort().finish())
    }

    @Test(arguments: [false, true])
    func `a handler that does not return holds up no end beyond its deadline`(_ isForTasks: Bool) async throws {
        let (isInside, mayGoOn) = (Latch(), Latch())
        let server = try LocalMessagePort { _, data in
            isInside.open()
            _ = mayGoOn.wait(until: .patience)
            return data
        }
        let thread = try await RunLoopThread()
        try server.schedule(in: thread.loop)
        let remote = RemoteMessagePort(server.sendRight)
        let asking = Task { await error { _ = try await remote.request(id: 1) } }
        #expect(await waitUntil { isInside.isOpen })
        let areDone =
            if isForTasks {
                await server.finish(before: .now + .milliseconds(20))
            } else {
                await Helper { server.finish(before: .now + .milliseconds(20)) }.ended()
            }
        #expect(areDone == false)
        #expect(!server.isValid)
        #expect(!mayGoOn.isOpen)
        // The handler's reply still arrives.
        mayGoOn.open()
        #expect(await asking.value == nil)
        thread.stop()
    }

    @Test func `a sender whose drain probe is lost probes again when it is told again`() async throws {
        let owner = PortRuntime(directory: sandbox.path, sharedMemory: .never)
        let port = try MachPort(nameServer: owner.nameServer)
        try owner.nameServer.register(port, name: "finishing")
        // The second one keeps the owner waiting while the first is away.
        let senders = (0..<2).map { _ in PortRuntime(directory: sandbox.path) }
        var channels: [SendChannel] = []
        for sender in senders {
            let right = try await sender.nameServer.port(forName: "finishing", before: .patience)
            try await right.send(MachPort.Message(), before: .patience)
            right.onInvalidation {}
            channels.append(right.channel)
        }
        func watchers() -> [ControlConnection] { owner.control.watchers(of: port.id.number) }
        #expect(await waitUntil { watchers().count == 2 })
        owner.finishing.begin(port.id.number, RequestLedger(RequestNotices()))
        func areDone() -> Bool { owner.finishing.areDone(port.id.number)?.value != nil }
        // Nobody takes what is before the probes.
        #expect(
            await waitUntil {
                channels.allSatisfy { channel in channel.state.withLock { $0.zeroMQ.drainProbe != nil } }
            })
        let former = try #require(watchers().first { $0.incarnation == senders[0].incarnation })
        former.cut()
        #expect(await waitUntil { watchers().count == 2 && !watchers().contains { $0 === former } })
        let isTold = Latch()
        try owner.control.housekeeping.perform { isTold.open() }
        #expect(await waitUntil { isTold.isOpen })
        #expect(!areDone())
        for _ in channels { _ = try await port.receive(before: .patience) }
        #expect(await waitUntil { areDone() })
        withExtendedLifetime(senders) {}
    }

    @Test(arguments: [false, true]) func `the end of the serving task cancels handlers`(_ areTwo: Bool) async throws {
        let (server, remote, serving, kept) = try await served(areTwo: areTwo) { request in
            try await Task.sleep(for: .seconds(1000))
            return request.data
        }
        let asking = Task { await error { _ = try await remote.request(id: 1, timeout: .seconds(1000)) } }
        #expect(await waitUntil { server.port.receiver.look().statistics.received == 1 })
        serving.cancel()
        try await serving.value
        #expect(await asking.value == .unanswered(port: remote.sendRight.identity))
        // The port is there for another task.
        #expect(server.isValid)
        let again = Task { try await server.serve { $0.data } }
        #expect(try await remote.request(id: 1, [1]) == [1])
        again.cancel()
        try await again.value
        withExtendedLifetime(kept) {}
    }

    @Test func `a sequence of requests also has what wants no reply`() async throws {
        let server = try LocalMessagePort(queueLimit: 10)
        let remote = RemoteMessagePort(server.sendRight)
        try await remote.send(id: 1, [1])
        let asking = Task { try await remote.request(id: 2, [2]) }
        var ids: [UInt32] = []
        for await request in server.requests {
            ids.append(request.id)
            if request.id == 1 {
                #expect(request.replyRight == nil)
                #expect(!request.isCancelled)
            }
            guard let right = request.replyRight else { continue }
            try right.reply(with: request.data)
            break
        }
        #expect(try await asking.value == [2])
        #expect(ids == [1, 2])
        server.invalidate()
        for await _ in server.requests { Issue.record("a request to an invalid port") }
    }

    @Test(arguments: [false, true]) func `messages of several components go both ways`(_ areTwo: Bool) async throws {
        let runtimes = runtimes(areTwo: areTwo)
        let server = try LocalMessagePort(name: "served", nameServer: runtimes.server.nameServer)
        let serving = Task {
            try await server.serveMessages { request in
                MachPort.Message(id: request.id + 1, request.message.components.reversed())
            }
        }
        let remote = try await RemoteMessagePort(
            name: "served", nameServer: runtimes.asker.nameServer, before: .patience)
        let port = try MachPort(nameServer: runtimes.asker.nameServer)
        let sent = MachPort.Message(id: 6, [.bytes([1]), .port(port.sendRight), .bytes([])], replyPort: port.sendRight)
        let reply = try await remote.request(sent)
        #expect(reply.id == 7)
        #expect(reply.replyPort == nil)
        #expect(reply.components == sent.components.reversed())
        #expect(
            await Helper { try? remote.request(sent).components.count }.ended() == 3)
        server.invalidate()
        try await serving.value
        withExtendedLifetime((runtimes, port)) {}
    }

    @Test(arguments: [false, true]) func `both sides learn that a reply is too large`(_ areTwo: Bool) async throws {
        let runtimes = runtimes(areTwo: areTwo)
        let thrown = Shared<[PortError]>([])
        let server = try LocalMessagePort(name: "served", nameServer: runtimes.server.nameServer) { request in
            do throws(PortError) {
                try request.replyRight?.reply(with: [UInt8](repeating: 1, count: Int(request.id)))
            } catch {
                thrown.withLock { $0.append(error) }
            }
        }
        let thread = try await RunLoopThread()
        try server.schedule(in: thread.loop)
        let remote = try await RemoteMessagePort(
            name: "served", nameServer: runtimes.asker.nameServer, before: .patience)
        try runtimes.asker.setReplyLimit(5000)
        #expect(runtimes.asker.replyLimit == 5000)
        #expect(try await remote.request(id: 4900)?.count == 4900)
        guard case .replyTooLarge(let port, let size, 5000)? = await error({ _ = try await remote.request(id: 6000) })
        else {
            Issue.record("the asker learns nothing")
            return
        }
        #expect(port == remote.identity)
        #expect(size > 6000)
        #expect(size < 6100)
        // The asker is told first.
        #expect(await waitUntil { !thrown.withLock { $0.isEmpty } })
        #expect(thrown.withLock { $0.map { "\($0)".contains("5000") } } == [true])
        try runtimes.asker.setReplyLimit(1 << 20)
        #expect(try await remote.request(id: 6000)?.count == 6000)
        thread.stop()
    }

    @Test(arguments: [false, true])
    func `a port that finishes waits for replies that wait for room`(_ isRead: Bool) async throws {
        let runtimes = runtimes(areTwo: true)
        let handled = Shared(0)
        let server = try LocalMessagePort(name: "served", nameServer: runtimes.server.nameServer) { _, data in
            handled.withLock { $0 += 1 }
            return data
        }
        let thread = try await RunLoopThread()
        try server.schedule(in: thread.loop)
        let remote = try await RemoteMessagePort(
            name: "served", nameServer: runtimes.asker.nameServer, before: .patience)
        // An asker that takes none of its replies.
        let asker = try MachPort(queueLimit: 1, nameServer: runtimes.asker.nameServer)
        let data = [UInt8](repeating: 1, count: 300_000)
        for number in 1...10 as ClosedRange<UInt64> {
            let message = MachPort.Message(id: 1, data: data, replyPort: asker.sendRight)
            let channel = remote.sendRight.channel
            let request = try MessageEncoding.outgoing(message, kind: .request, request: number, to: channel)
            try await channel.send(request, before: .distantFuture)
        }
        // A request that was only taken would be refused.
        #expect(await waitUntil { handled.withLock { $0 == 10 } })
        let reading = Task {
            while isRead, !Task.isCancelled {
                // A reply is no message, so the port drops it.
                _ = try? await asker.receiver.receive(before: .now + .milliseconds(100), takesRequests: true)
            }
        }
        #expect(await server.finish(before: .now + .milliseconds(isRead ? 60_000 : 50)) == isRead)
        if isRead { #expect(await waitUntil { asker.receiver.look().statistics.received == 10 }) }
        reading.cancel()
        await reading.value
        thread.stop()
        withExtendedLifetime(runtimes) {}
    }

    @Test func `any sequence of bytes is data`() async throws {
        let server = try LocalMessagePort { (request: MessagePortRequest) in
            try? request.replyRight?.reply(with: (request.data ?? []).reversed())
        }
        let thread = try await RunLoopThread()
        try server.schedule(in: thread.loop)
        let remote = RemoteMessagePort(server.sendRight)
        #expect(try await remote.request(id: 1, "abc".utf8) == Array("cba".utf8))
        #expect(try await remote.request(id: 1, 1...3) == [3, 2, 1])
        #expect(try await remote.request(id: 1, [4, 5]) == [5, 4])
        #expect(await Helper { try? remote.request(id: 1, "ab".utf8) }.ended() == Array("ba".utf8))
        try await remote.send(id: 2, "x".utf8)
        #expect(MachPort.Message(bytes: "ab".utf8).components == [.bytes([97, 98])])
        let bytes: [UInt8] = [1, 2]
        #expect(MachPort.Message(id: 3, bytes: bytes.span.bytes).components == [.bytes([1, 2])])
        thread.stop()
    }
}
