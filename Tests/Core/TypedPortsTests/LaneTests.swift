import OwnThread
import Ports
import PortsInspection
import TestSupport
import Testing

@testable import TypedPorts

/// Lanes of a server, inside a runtime and between two. No test blocks its thread.
@Suite(.ownThread) struct LaneTests {
    private let folder = TemporaryFolder()

    struct Job: PortRequest {
        typealias Reply = Int
        var number: Int
    }

    struct Status: PortRequest { typealias Reply = String }

    struct Strict: PortRequest {
        typealias Reply = EmptyReply
        static var lane: RequestLane? { RequestLane("strict", atMost: 1, whenFull: .refuse) }
    }

    struct Follow: PortStreamRequest { typealias Element = Int }

    /// Jobs wait until it is open.
    private final class Gate: Sendable {
        let stream: AsyncStream<Void>
        let opener: AsyncStream<Void>.Continuation
        let begun = Shared<[Int]>([])

        init() { (stream, opener) = AsyncStream.makeStream() }

        func open() { opener.finish() }

        func pass(_ number: Int) async {
            begun.withLock { $0.append(number) }
            for await _ in stream {}
        }
    }

    private struct Stand {
        let server: RequestServer
        let client: RequestClient
        let right: MachPort.SendRight
        let gate = Gate()
        let runtimes: [PortRuntime]

        /// - Parameter lane: The lane of the jobs.
        init(_ path: String, areTwo: Bool, jobs lane: RequestLane? = nil) async throws {
            let one = PortRuntime(directory: path)
            let other = areTwo ? PortRuntime(directory: path) : one
            runtimes = [one, other]
            server = try RequestServer(name: "lanes", nameServer: one.nameServer)
            right = try await other.nameServer.port(forName: "lanes", before: .patience)
            client = RequestClient(right)
            server.handle(Job.self, in: lane) { [gate] job in
                await gate.pass(job.number)
                return job.number
            }
        }

        func ask(_ numbers: some Sequence<Int>) -> [Task<Int, any Error>] {
            numbers.map { number in
                Task { try await client.request(Job(number: number), timeout: .seconds(100)) }
            }
        }

        func info() async -> PortInfo? { try? await right.info(observing: .milliseconds(20)) }

        func end(_ running: Task<Void, any Error>) async throws {
            gate.open()
            #expect(await server.finish(timeout: .patience))
            try await running.value
        }
    }

    @Test(arguments: [false, true])
    func `a status answers at once while slow jobs fill the rest, and more of them wait`(_ areTwo: Bool) async throws {
        let stand = try await Stand(folder.path, areTwo: areTwo)
        stand.server.handle(Status.self, in: RequestLane(atMost: 2)) { _ in "busy" }
        let running = Task { try await stand.server.run(atMost: 2) }
        let jobs = stand.ask(1...20)
        #expect(await waitUntil { await stand.info()?.requests.count == 20 })
        #expect(try await stand.client.request(Status(), timeout: .seconds(60)) == "busy")
        #expect(await waitUntil { stand.gate.begun.withLock { $0.count } >= 2 })
        #expect(stand.gate.begun.withLock { $0.count } == 2)
        let seen = try #require(await stand.info())
        #expect(seen.takers.handlers?.count == 2)
        #expect(seen.takers.handlers?.limit == 4)
        #expect(seen.takers.handlers?.fullLane == nil)
        #expect(seen.queue.waiting == 0)
        #expect(seen.condition == .busy || seen.condition == .slow)
        stand.gate.open()
        for (number, job) in zip(1..., jobs) { #expect(try await job.value == number) }
        try await stand.end(running)
        #expect(stand.gate.begun.withLock { $0.count } == 20)
    }

    @Test(arguments: [false, true])
    func `a full lane leaves further requests at the port, and says so`(_ areTwo: Bool) async throws {
        let lane = RequestLane("jobs", atMost: 1, whenFull: .wait(upTo: 2))
        let stand = try await Stand(folder.path, areTwo: areTwo, jobs: lane)
        let running = Task { try await stand.server.run() }
        let jobs = stand.ask(1...10)
        #expect(await waitUntil { await stand.info()?.queue.waiting == 7 })
        let seen = try #require(await stand.info())
        #expect(seen.requests.count == 3)
        #expect(seen.takers.handlers?.count == 1)
        #expect(seen.takers.handlers?.limit == 101)
        #expect(seen.takers.handlers?.fullLane == "jobs")
        // Not `stuck` before it is long.
        let age = seen.requests.oldest.first?.age ?? .zero
        #expect(seen.condition == (age < .seconds(2) ? .busy : .stuck))
        if seen.condition == .stuck { #expect(seen.trouble?.contains("all handlers of the lane “jobs”") == true) }
        stand.gate.open()
        for (number, job) in zip(1..., jobs) { #expect(try await job.value == number) }
        try await stand.end(running)
    }

    @Test(arguments: [false, true])
    func `a server that finishes leaves the jobs that wait for their lane to its successor`(_ areTwo: Bool) async throws
    {
        let lane = RequestLane("jobs", atMost: 2)
        let stand = try await Stand(folder.path, areTwo: areTwo, jobs: lane)
        let running = Task { try await stand.server.run() }
        let names = stand.runtimes[1].nameServer
        let clients = (1...20).map { number in
            Task { [names] in
                try await RequestClient("lanes", nameServer: names)
                    .request(Job(number: number), timeout: .seconds(100))
            }
        }
        #expect(await waitUntil { stand.gate.begun.withLock { $0.count } == 2 })
        #expect(await waitUntil { await stand.info()?.requests.count == 20 })
        let first = Set(stand.gate.begun.withLock { $0 })
        let finishing = Task { await stand.server.finish(timeout: .patience) }
        // The name is free at once.
        var made: RequestServer?
        #expect(
            await waitUntil {
                made = try? RequestServer(name: "lanes", nameServer: stand.runtimes[0].nameServer)
                return made != nil
            })
        let successor = try #require(made)
        successor.handle(Job.self) { -$0.number }
        let serving = Task { try await successor.run() }
        for (number, client) in zip(1..., clients) where !first.contains(number) {
            #expect(try await client.value == -number)
        }
        #expect(stand.gate.begun.withLock { Set($0) } == first)
        stand.gate.open()
        #expect(await finishing.value)
        for number in first { #expect(try await clients[number - 1].value == number) }
        try await running.value
        await successor.finish()
        try await serving.value
    }

    @Test(arguments: [false, true])
    func `requests beyond a lane that refuses fail at once, with its limit`(_ areTwo: Bool) async throws {
        let lane = RequestLane("jobs", atMost: 2, whenFull: .refuse(beyond: 1))
        let stand = try await Stand(folder.path, areTwo: areTwo, jobs: lane)
        let running = Task { try await stand.server.run() }
        let jobs = stand.ask(1...3)
        #expect(await waitUntil { await stand.info()?.requests.count == 3 })
        let busy = PortError.serverBusy(port: stand.right.identity, limit: 2)
        for number in 4...6 {
            await #expect(throws: busy) {
                try await stand.client.request(Job(number: number), timeout: .seconds(60))
            }
        }
        func counters() async -> PortCounters.Port? { await stand.runtimes[0].counters().named["lanes"] }
        // A refusal comes to its asker before the port counts it.
        #expect(await waitUntil { await counters()?.requests == 3 })
        #expect(await counters()?.lanes["jobs"].map { [$0.running, $0.waiting, $0.refused] } == [2, 1, 3])
        stand.gate.open()
        for (number, job) in zip(1..., jobs) { #expect(try await job.value == number) }
        #expect(try await stand.client.request(Job(number: 7)) == 7)
        // A lane learns the end of a request after the port.
        #expect(await waitUntil { await counters()?.lanes["jobs"]?.running == 0 })
        #expect(await counters()?.lanes["jobs"].map { [$0.running, $0.waiting, $0.refused] } == [0, 0, 3])
        #expect(await waitUntil { await counters()?.requests == 0 })
        running.cancel()
        _ = await running.result
        // The counts outlive the call.
        #expect(await counters()?.lanes["jobs"]?.refused == 3)
    }

    @Test func `a server may refuse all that it has no handler for, and a type may name its lane`() async throws {
        let stand = try await Stand(folder.path, areTwo: true)
        stand.server.handle(Strict.self) { [gate = stand.gate] _ in
            await gate.pass(0)
            return EmptyReply()
        }
        let running = Task { try await stand.server.run(atMost: 1, whenFull: .refuse) }
        let jobs = stand.ask([1])
        let strict = Task { try await stand.client.request(Strict(), timeout: .seconds(100)) }
        #expect(await waitUntil { stand.gate.begun.withLock { $0.count } == 2 })
        let busy = PortError.serverBusy(port: stand.right.identity, limit: 1)
        await #expect(throws: busy) { try await stand.client.request(Job(number: 2)) }
        await #expect(throws: busy) { try await stand.client.request(Strict()) }
        stand.gate.open()
        #expect(try await jobs[0].value == 1)
        _ = try await strict.value
        try await stand.end(running)
    }

    @Test func `askers that give up make room for others in their lane`() async throws {
        let lane = RequestLane("jobs", atMost: 1, whenFull: .wait(upTo: 3))
        let stand = try await Stand(folder.path, areTwo: true, jobs: lane)
        stand.server.handle(Status.self, in: RequestLane(atMost: 1)) { _ in "fine" }
        let running = Task { try await stand.server.run() }
        let first = stand.ask([1])
        #expect(await waitUntil { stand.gate.begun.withLock { $0.count } == 1 })
        let others = stand.ask(2...4)
        #expect(await waitUntil { await stand.info()?.requests.count == 4 })
        // Behind them, as the lane is full.
        let status = Task { try await stand.client.request(Status(), timeout: .seconds(100)) }
        #expect(await waitUntil { await stand.info()?.queue.waiting == 1 })
        for task in others { task.cancel() }
        #expect(try await status.value == "fine")
        #expect(await waitUntil { await stand.info()?.requests.count == 1 })
        stand.gate.open()
        #expect(try await first[0].value == 1)
        try await stand.end(running)
        #expect(stand.gate.begun.withLock { $0 } == [1])
    }

    @Test(arguments: [false, true])
    func `a server that ends refuses those that wait, and answers the others`(_ isCancelled: Bool) async throws {
        let lane = RequestLane("jobs", atMost: 1)
        let stand = try await Stand(folder.path, areTwo: true, jobs: lane)
        let running = Task { try await stand.server.run() }
        let jobs = stand.ask(1...5)
        #expect(await waitUntil { await stand.info()?.requests.count == 5 })
        // A request is in progress before its handler begins.
        #expect(await waitUntil { !stand.gate.begun.withLock { $0.isEmpty } })
        let begun = try #require(stand.gate.begun.withLock { $0.first })
        if isCancelled {
            running.cancel()
            stand.gate.open()
            try await running.value
            for (number, job) in zip(1..., jobs) where number != begun {
                await #expect(throws: PortError.refused(port: stand.right.identity)) { try await job.value }
            }
            stand.server.port.invalidate()
        } else {
            let finishing = Task { await stand.server.finish(timeout: .patience) }
            for (number, job) in zip(1..., jobs) where number != begun {
                await #expect(throws: PortError.refused(port: stand.right.identity)) { try await job.value }
            }
            stand.gate.open()
            #expect(await finishing.value)
            #expect(try await jobs[begun - 1].value == begun)
            try await running.value
        }
    }

    @Test func `streams in a lane have its limit`() async throws {
        let stand = try await Stand(folder.path, areTwo: true)
        stand.server.handle(Follow.self, in: RequestLane(atMost: 1, whenFull: .refuse)) { _ in
            AsyncStream<Int> { $0.yield(1) }
        }
        let running = Task { try await stand.server.run() }
        var first = stand.client.stream(Follow()).makeAsyncIterator()
        #expect(try await first.next() == 1)
        var second = stand.client.stream(Follow()).makeAsyncIterator()
        await #expect(throws: PortError.serverBusy(port: stand.right.identity, limit: 1)) { try await second.next() }
        running.cancel()
        try await running.value
        stand.server.port.invalidate()
    }

    @Test func `plain requests have lanes, too`() async throws {
        let names = PortNameServer(directory: folder.path)
        let server = try LocalMessagePort(nameServer: names)
        server.setKind(RequestKind(name: "Status", lane: RequestLane(atMost: 1)), ofRequests: 2)
        let gate = Gate()
        let serving = Task {
            try await server.serve(atMost: 1) { request in
                if request.id == 1 { await gate.pass(1) }
                return request.data
            }
        }
        let remote = RemoteMessagePort(server.sendRight)
        let slow = (1...3).map { number in
            Task { try await remote.request(id: 1, [UInt8(number)], timeout: .seconds(100)) }
        }
        #expect(await waitUntil { gate.begun.withLock { $0.count } == 1 })
        #expect(try await remote.request(id: 2, [9], timeout: .seconds(60)) == [9])
        gate.open()
        for (number, task) in zip(1..., slow) { #expect(try await task.value == [UInt8(number)]) }
        server.invalidate()
        try await serving.value
    }

    // MARK: Limits, and clients of a right

    @Test func `a server's limits are those of its port`() async throws {
        let names = PortNameServer(directory: folder.path)
        let server = try RequestServer(nameServer: names, queueLimit: 7, byteLimit: 50_000, messageLimit: 4000)
        #expect(server.sendRight.messageLimit == 4000)
        #expect(server.port.port.queueLimit == 7)
        #expect(server.port.port.byteLimit == 50_000)
        struct Text: PortRequest {
            typealias Reply = EmptyReply
            var text: String
        }
        server.handle(Text.self) { _ in EmptyReply() }
        let running = Task { try await server.run() }
        let client = RequestClient(server.sendRight)
        _ = try await client.request(Text(text: "short"))
        let error = await #expect(throws: PortError.self) {
            try await client.request(Text(text: String(repeating: "long", count: 1000)))
        }
        guard case .messageTooLarge(_, _, 4000)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(throws: PortError.self) { try RequestServer(nameServer: names, queueLimit: 0) }
        await server.finish()
        try await running.value
    }
}
