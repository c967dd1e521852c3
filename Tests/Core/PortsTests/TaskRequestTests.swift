import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Requests that suspend their task. No test blocks its thread: tasks have few of them.
@Suite(.ownThread) struct TaskRequestTests {
    let sandbox = Sandbox()

    /// A server on a thread of its own.
    private func served(_ port: LocalMessagePort) throws -> RunLoopThread {
        let thread = try RunLoopThread()
        try port.schedule(in: thread.loop)
        return thread
    }

    @Test func `tasks that ask at once have their own replies`() async throws {
        let server = try LocalMessagePort { id, data in id == 0 ? nil : data.map { $0 + [UInt8(id)] } ?? [] }
        let thread = try served(server)
        let remote = RemoteMessagePort(server.sendRight)
        let answers = try await withThrowingTaskGroup(of: [[UInt8]?].self) { group in
            for task in 1..<20 as Range<UInt32> {
                group.addTask {
                    for number in 0..<50 as Range<UInt8> {
                        let answer = try await remote.request(id: task, [number])
                        if answer != [number, UInt8(task)] { return [answer] }
                    }
                    return [
                        try await remote.request(id: 0, [1]), try await remote.request(id: 1),
                        try await remote.request(id: 1, []),
                    ]
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(answers == Array(repeating: [nil, [], [1]], count: 19))
        #expect(PortRuntime.shared.replies.pending.pendingCount(to: server.sendRight.id) == 0)
        thread.stop()
    }

    @Test func `all requests of the first moment are answered, though the way back is not there yet`() async throws {
        let runtimes = (
            PortRuntime(directory: sandbox.path, sharedMemory: .never), PortRuntime(directory: sandbox.path)
        )
        let (asked, goOn, count) = (Shared(0), Latch(), 1000)
        let server = try LocalMessagePort(name: "many", nameServer: runtimes.0.nameServer) { _, data in
            if asked.withLock({
                $0 += 1; return $0
            }) == count {
                goOn.open()
            }
            return data
        }
        let thread = try served(server)
        let remote = try await RemoteMessagePort(name: "many", nameServer: runtimes.1.nameServer, before: .patience)
        // The socket for requests accepts with that thread.
        try await remote.sendRight.send(MachPort.Message(), before: .patience)
        #expect(await waitUntil { asked.withLock { $0 } == 1 })
        asked.withLock { $0 = 0 }
        // Nobody connects to the port for the replies before the last request has come.
        try runtimes.0.housekeeping.perform { _ = goOn.wait(until: .patience) }
        let answered = try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<count {
                let data = [UInt8(truncatingIfNeeded: number)]
                group.addTask {
                    try await remote.request(id: 1, data, timeout: .seconds(60)) == data
                }
            }
            return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(answered == count)
        withExtendedLifetime((runtimes, thread)) {}
    }

    @Test func `a task and the server that answers it may share a thread`() async throws {
        let server = try LocalMessagePort { _, data in data }
        let thread = try served(server)
        let remote = RemoteMessagePort(server.sendRight)
        let answer = try await Task(executorPreference: thread.loop.taskExecutor) {
            try await remote.request(id: 1, [1, 2])
        }.value
        #expect(answer == [1, 2])
        thread.stop()
    }

    @Test func `a request to another process suspends until its reply, or its end`() async throws {
        let desk = try Desk(sandbox)
        let child = Child("echo", "echo", in: sandbox)
        #expect(try await desk.port.receive(before: .patience).id == 1)
        let names = sandbox.names
        let found = Helper { try? RemoteMessagePort(name: "echo", nameServer: names) }
        let remote = try #require(await found.ended() ?? nil)
        #expect(remote.name == "echo")
        for number in 0..<100 as Range<UInt8> { #expect(try await remote.request(id: 1, [number]) == [number]) }
        let isInvalid = Shared(false)
        remote.onInvalidation { isInvalid.withLock { $0 = true } }
        child.stop()
        let channel = remote.sendRight.channel
        let sent = channel.sentCount
        let request = Task { try await remote.request(id: 1, timeout: .seconds(1000)) }
        #expect(await waitUntil { channel.sentCount == sent + 1 })
        child.kill()
        await #expect(throws: PortError.becameInvalid(port: remote.sendRight.identity)) { try await request.value }
        #expect(await waitUntil { isInvalid.withLock { $0 } })
    }

    @Test func `a reply that is not the one asked's is dropped and counted`() async throws {
        let asked = Shared<[MachPort.SendRight]>([])
        let kept = Shared<[ReplyRight]>([])
        let server = try LocalMessagePort(requestHandler: { request in
            if let right = request.message.replyPort { asked.withLock { $0.append(right) } }
            if let right = request.replyRight { kept.withLock { $0.append(right) } }
        })
        let thread = try await RunLoopThread()
        try server.schedule(in: thread.loop)
        let remote = RemoteMessagePort(server.sendRight)
        let request = Task { try await remote.request(id: 1, timeout: .seconds(60)) }
        #expect(await waitUntil { asked.withLock { $0.count } == 1 })
        let replies = try #require(asked.withLock { $0.first })
        let before = PortRuntime.shared.lateReplyCount
        // The numbers that one would try first.
        for number in 0...200 as ClosedRange<UInt64> {
            let reply = try MessageEncoding.outgoing(
                MachPort.Message([.bytes([6, 6, 6])]), kind: .reply, request: number, to: replies.channel)
            try await replies.channel.send(reply, before: .patience)
        }
        #expect(await waitUntil { PortRuntime.shared.lateReplyCount >= before + 201 })
        let right = try #require(kept.withLock { $0.first })
        try right.reply(with: [1])
        #expect(try await request.value == [1])
        thread.stop()
    }

    @Test func `a cancelled request ends at once, and its late reply is dropped and counted`() async throws {
        let rights = Shared<[ReplyRight]>([])
        let server = try LocalMessagePort(requestHandler: { request in
            if let right = request.replyRight { rights.withLock { $0.append(right) } }
        })
        let thread = try served(server)
        let remote = RemoteMessagePort(server.sendRight)
        let request = Task { try await remote.request(id: 1, timeout: .seconds(1000)) }
        #expect(await waitUntil { rights.withLock { $0.count } == 1 })
        request.cancel()
        await #expect(throws: CancellationError.self) { try await request.value }
        #expect(PortRuntime.shared.replies.pending.pendingCount(to: server.sendRight.id) == 0)
        let before = PortRuntime.shared.lateReplyCount
        let right = try #require(rights.withLock { $0.first })
        #expect(await Helper { errorKind { try right.reply(with: [1]) } }.ended() == "none")
        #expect(await waitUntil { PortRuntime.shared.lateReplyCount > before })
        let began = ContinuousClock.now
        await #expect(throws: PortError.receiveTimedOut(port: remote.sendRight.identity)) {
            _ = try await remote.request(id: 2, timeout: .milliseconds(30))
        }
        #expect(began.duration(to: .now) >= .milliseconds(30))
        rights.withLock { $0 = [] }
        thread.stop()
    }

    @Test func `a request that is let go of is unanswered, and one that finds no room is not sent`() async throws {
        let server = try LocalMessagePort(requestHandler: { _ in })
        let thread = try served(server)
        let remote = RemoteMessagePort(server.sendRight)
        await #expect(throws: PortError.unanswered(port: remote.sendRight.identity)) {
            _ = try await remote.request(id: 1, timeout: .seconds(1000))
        }
        thread.stop()
        let full = try MachPort(queueLimit: 1)
        await #expect(throws: PortError.sendTimedOut(port: full.identity)) {
            while true { try await RemoteMessagePort(full.sendRight).send(id: 1, timeout: .zero) }
        }
        await #expect(throws: PortError.sendTimedOut(port: full.identity)) {
            _ = try await RemoteMessagePort(full.sendRight).request(id: 1, timeout: .milliseconds(20))
        }
        #expect(PortRuntime.shared.replies.pending.pendingCount(to: full.sendRight.id) == 0)
    }
}
