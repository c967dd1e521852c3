import Glibc
import OwnThread
import PortsInspection
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct RequestsInProgressTests {
    private let sandbox = Sandbox()

    private func server(_ handler: LocalMessagePort.RequestHandler? = nil) throws -> LocalMessagePort {
        guard let handler else { return try LocalMessagePort(name: "asked", nameServer: sandbox.names) }
        return try LocalMessagePort(name: "asked", nameServer: sandbox.names, requestHandler: handler)
    }

    @Test func `the handlers of serve are told, with their requests and askers`() async throws {
        let server = try server()
        let (gate, opener) = AsyncStream.makeStream(of: Void.self)
        let serving = Task {
            try await server.serve(atMost: 2) { request in
                for await _ in gate { break }
                return request.data
            }
        }
        let runtime = PortRuntime(directory: sandbox.path)
        let right = try await runtime.nameServer.port(forName: "asked", before: .patience)
        func info() async throws -> PortInfo { try await right.info(observing: .milliseconds(20)) }
        #expect(await waitUntil { (try? await info().takers.waitingTasks) == 1 })
        let idle = try await info()
        #expect(idle.condition == .served)
        #expect(idle.requests.oldest.isEmpty)
        #expect(idle.takers.handlers == .init(count: 0, limit: 2))
        #expect(idle.takers.waitingTasks == 1)
        #expect(idle.takerTexts == ["tasks, 0 at work, at most 2 at a time"])

        let remote = RemoteMessagePort(right)
        let askers = (1...3).map { id in
            Task { try await remote.request(id: UInt32(id), [UInt8(id)], timeout: .seconds(60)) }
        }
        #expect(await waitUntil { (try? await info().takers.handlers?.count) == 2 })
        #expect(await waitUntil { (try? await info().queue.waiting) == 1 })
        let full = try await info()
        #expect(full.requests.count == 2)
        #expect(full.requests.oldest.count == 2)
        #expect(full.requests.lasting == 0)
        #expect(full.requests.oldest.allSatisfy { $0.pid == getpid() && $0.program != nil && $0.name == nil })
        #expect(full.senders.map(\.requests) == [2])
        #expect(full.requests.oldest[0].age >= full.requests.oldest[1].age)
        #expect(full.requests.oldest.allSatisfy { !$0.isCancelled })
        #expect(full.condition == (full.requests.oldest[0].age < .seconds(2) ? .busy : .stuck))
        opener.finish()
        for asker in askers { _ = try await asker.value }
        #expect(await waitUntil { (try? await info().requests.count) == 0 })
        server.invalidate()
        try await serving.value
    }

    @Test func `a message without a wish for a reply is told while a task of serve handles it`() async throws {
        let server = try server()
        let (gate, opener) = AsyncStream.makeStream(of: Void.self)
        let serving = Task {
            try await server.serve { _ in
                for await _ in gate { break }
                return nil
            }
        }
        let runtime = PortRuntime(directory: sandbox.path)
        let right = try await runtime.nameServer.port(forName: "asked", before: .patience)
        try await right.send(MachPort.Message(id: 9), before: .patience)
        func info() async throws -> PortInfo { try await right.info(observing: .milliseconds(20)) }
        #expect(await waitUntil { (try? await info().handling.count) == 1 })
        let busy = try await info()
        let message = try #require(busy.handling.first)
        #expect(message.id == 9)
        #expect(message.pid == getpid())
        #expect(!message.isRequest)
        #expect(!message.isOlder)
        #expect(busy.requests.oldest.isEmpty)
        #expect(busy.condition == (message.age < PortInfo.longHandling ? .busy : .slow))
        opener.finish()
        #expect(await waitUntil { (try? await info().handling.isEmpty) == true })
        server.invalidate()
        try await serving.value
    }

    @Test func `a right to reply that is kept is a request in progress, also when nobody waits any more`() throws {
        let kept = Shared<[ReplyRight]>([])
        let server = try server { request in kept.withLock { $0 += [request.replyRight].compactMap { $0 } } }
        let thread = try RunLoopThread()
        try server.schedule(in: thread.loop)
        let runtime = PortRuntime(directory: sandbox.path)
        let right = try runtime.nameServer.port(forName: "asked", before: .patience)
        let remote = RemoteMessagePort(right)
        #expect(errorKind { _ = try remote.request(id: 5, timeout: .milliseconds(50)) } == "receiveTimedOut")
        #expect(waitUntil { !kept.withLock { $0.isEmpty } })
        #expect(waitUntil { (try? right.info(before: .patience).requests.oldest.first?.isCancelled) == true })
        let info = try right.info(before: .patience)
        #expect(info.requests.count == 1)
        #expect(info.requests.oldest.first?.id == 5)
        #expect(info.takers.handlers == nil)
        #expect(info.condition != .served)
        // Released after the lock.
        _ = kept.withLock { $0.removeFirst() }
        #expect(try right.info(before: .patience).requests.count == 0)
        #expect(waitUntil { (try? right.info(before: .patience).condition) == .served })
        thread.stop()
    }

    @Test func `many requests end in any order, and what is told has a bound`() throws {
        let ledger = RequestLedger(RequestNotices())
        let asker = try MachPort(nameServer: sandbox.names)
        let requests = try (0..<200 as Range<UInt64>).map { number in
            try #require(ledger.begin(asker.receiver.channel, number: number, subject: UInt32(number % 2)))
        }
        func numbers() -> Set<UInt64> {
            var numbers: Set<UInt64> = []
            ledger.forEach { entry, _ in numbers.insert(entry.number) }
            return numbers
        }
        #expect(numbers() == Set(0..<200))
        ledger.serving.setKind(RequestKind(name: "Count", mayLast: true), of: 1)
        let seen = RequestsInProgress(ledger, sandbox.names.runtime.inspector, inHand: nil)
        #expect(seen.count == 100)
        #expect(seen.lastingCount == 100)
        #expect(seen.oldest.count == 32)
        #expect(seen.handlers == nil)
        #expect(seen.oldest.map(\.id) == [UInt32](repeating: 0, count: 16) + [UInt32](repeating: 1, count: 16))
        #expect(seen.oldest[16].name == "Count")
        #expect(seen.oldest[16].mayLast)
        #expect(!seen.oldest[0].mayLast)
        // The oldest were the first.
        #expect(zip(seen.oldest, seen.oldest.dropFirst()).allSatisfy { $0.mayLast != $1.mayLast || $0.age >= $1.age })
        #expect(ledger.reply(to: requests[0]))
        let replying = RequestsInProgress(ledger, sandbox.names.runtime.inspector, inHand: nil)
        #expect(replying.count == 100)
        #expect(replying.oldest[16].isReplying)
        #expect(!replying.oldest[0].isReplying)

        for request in requests.prefix(100).shuffled() { ledger.end(request, .answered) }
        #expect(numbers() == Set(100..<200))
        ledger.finish()
        #expect(ledger.begin(asker.receiver.channel, number: 1, subject: 0) == nil)
        for request in requests.suffix(100).shuffled() {
            #expect(ledger.areDone.value == nil)
            ledger.end(request, .answered)
        }
        #expect(ledger.areDone.value != nil)
        #expect(ledger.isEmpty)
    }
}
