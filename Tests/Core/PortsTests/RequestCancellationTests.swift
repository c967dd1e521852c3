import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// That a server learns when nobody waits for a reply any more. No test blocks its thread.
@Suite(.ownThread) struct RequestCancellationTests {
    let sandbox = Sandbox()

    private struct Stand {
        let server: LocalMessagePort
        let remote: RemoteMessagePort
        let notices: RequestNotices
        /// Keeps both runtimes.
        let runtimes: [PortRuntime]
        var requests: LocalMessagePort.Requests
    }

    private func stand(areTwo: Bool) async throws -> Stand {
        let one = PortRuntime(directory: sandbox.path)
        let other = areTwo ? PortRuntime(directory: sandbox.path) : one
        let server = try LocalMessagePort(name: "served", nameServer: one.nameServer)
        let remote = try await RemoteMessagePort(name: "served", nameServer: other.nameServer, before: .patience)
        return Stand(
            server: server, remote: remote, notices: one.notices, runtimes: [one, other],
            requests: server.requests)
    }

    enum End: CaseIterable { case cancellation, timeout }

    @Test(arguments: [false, true], End.allCases)
    func `a server at work learns that its asker has given up`(_ areTwo: Bool, _ end: End) async throws {
        var stand = try await stand(areTwo: areTwo)
        let remote = stand.remote
        let asking = Task {
            try await remote.request(id: 1, timeout: end == .timeout ? .milliseconds(200) : .seconds(1000))
        }
        let request = try #require(await stand.requests.next())
        let calls = Shared(0)
        for _ in 0..<2 { request.onCancel { calls.withLock { $0 += 1 } } }
        if end == .cancellation {
            #expect(!request.isCancelled)
            #expect(calls.withLock { $0 } == 0)
            asking.cancel()
        }
        #expect(await waitUntil { calls.withLock { $0 } == 2 })
        #expect(request.isCancelled)
        // At once, when it is known.
        request.onCancel { calls.withLock { $0 += 1 } }
        #expect(calls.withLock { $0 } == 3)
        let late = stand.runtimes[1].lateReplyCount
        try request.replyRight?.reply(with: [1])
        #expect(await waitUntil { stand.runtimes[1].lateReplyCount == late + 1 })
        _ = await asking.result
        // A reply that waited for its connection is noted after it has left.
        #expect(await waitUntil { stand.notices.isEmpty })
    }

    @Test(arguments: [false, true])
    func `a request whose asker has given up is cancelled when it is taken`(_ areTwo: Bool) async throws {
        var stand = try await stand(areTwo: areTwo)
        let remote = stand.remote
        await #expect(throws: PortError.receiveTimedOut(port: remote.sendRight.identity)) {
            _ = try await remote.request(id: 1, timeout: .milliseconds(50))
        }
        #expect(await waitUntil { !stand.notices.isEmpty })
        let asking = Task { try await remote.request(id: 2, timeout: .seconds(1000)) }
        var request = try #require(await stand.requests.next())
        #expect(request.id == 1)
        #expect(request.isCancelled)
        request = try #require(await stand.requests.next())
        #expect(request.id == 2)
        #expect(!request.isCancelled)
        #expect(stand.notices.isEmpty)
        asking.cancel()
        #expect(await waitUntil { request.isCancelled })
    }

    @Test func `a handler in progress is cancelled by its asker, and not by others`() async throws {
        let stand = try await stand(areTwo: true)
        let (server, remote) = (stand.server, stand.remote)
        let (begun, cancelled) = (Shared(0), Shared(0))
        let serving = Task {
            try await server.serve { request in
                begun.withLock { $0 += 1 }
                do { try await Task.sleep(for: .seconds(request.id == 1 ? 1000 : 0)) } catch {
                    cancelled.withLock { $0 += 1 }
                    throw error
                }
                return [1]
            }
        }
        let asking = (0..<10).map { _ in Task { try await remote.request(id: 1, timeout: .seconds(1000)) } }
        // A request that is cancelled before its handler begins gets none.
        #expect(await waitUntil { begun.withLock { $0 } == 10 })
        for task in asking.prefix(4) { task.cancel() }
        #expect(await waitUntil { cancelled.withLock { $0 } == 4 })
        #expect(try await remote.request(id: 2) == [1])
        #expect(cancelled.withLock { $0 } == 4)
        for task in asking { task.cancel() }
        #expect(await waitUntil { cancelled.withLock { $0 } == 10 })
        server.invalidate()
        try await serving.value
        #expect(await waitUntil { stand.notices.isEmpty })
    }

    @Test func `the end of an asker's process cancels its requests`() async throws {
        let server = try LocalMessagePort(name: "test", nameServer: sandbox.names)
        let asker = Child("ask-for-ever", in: sandbox)
        var requests = server.requests
        let request = try #require(await requests.next())
        let isCancelled = Shared(false)
        request.onCancel { isCancelled.withLock { $0 = true } }
        #expect(!request.isCancelled)
        asker.kill()
        #expect(await waitUntil { isCancelled.withLock { $0 } })
        #expect(request.isCancelled)
    }

    @Test func `a task that was cancelled can reply`() async throws {
        var stand = try await stand(areTwo: true)
        let remote = stand.remote
        let asking = Task { try await remote.request(id: 1, [3]) }
        let request = try #require(await stand.requests.next())
        let replying = Task {
            while !Task.isCancelled { await Task.yield() }
            try request.replyRight?.reply(with: request.data)
        }
        replying.cancel()
        try await replying.value
        #expect(try await asking.value == [3])
    }

    @Test func `of many requests that are monitored, those that have ended take no room`() {
        let (notices, asker) = (RequestNotices(), Incarnation.random())
        let news = Shared<[UInt64: [RequestEnd?]]>([:])
        func begin(_ number: UInt64) {
            notices.monitor(RequestID(asker: asker, number: number)) { one in
                news.withLock { $0[number, default: []].append(one) }
            }
        }
        func end(_ number: UInt64, _ end: RequestEnd) {
            notices.ended(RequestID(asker: asker, number: number), end)
        }
        for number in 0..<20_000 as Range<UInt64> { begin(number) }
        notices.cancel(RequestID(asker: asker, number: 0))
        for number in 1..<20_000 as Range<UInt64> { end(number, .answered) }
        #expect(news.withLock { $0[1] } == [.answered])
        end(0, .unanswered)
        end(0, .unanswered)
        #expect(news.withLock { $0[0] } == [nil, .unanswered])
        #expect(news.withLock { $0.count } == 20_000)
        #expect(notices.isEmpty)
    }

    @Test func `cancellations of requests that never come are forgotten`() {
        let notices = RequestNotices()
        let incarnation = Incarnation.random()
        func request(_ number: UInt64) -> RequestID { .init(asker: incarnation, number: number) }
        for number in 0..<40_000 as Range<UInt64> { notices.cancel(request(number)) }
        #expect(!notices.isCancelled(request(0)))
        #expect(notices.isCancelled(request(39_999)))
        #expect((0..<40_000 as Range<UInt64>).count { notices.isCancelled(request($0)) } == 16_384)
    }

    @Test func `cancellations of processes that are gone take a bounded room`() {
        var cancelled = CancelledRequests()
        func request(_ asker: Incarnation, _ number: UInt64) -> RequestID {
            .init(asker: asker, number: number)
        }
        let askers = (0..<1000).map { _ in Incarnation.random() }
        for asker in askers {
            for number in 0..<100 as Range<UInt64> { cancelled.insert(request(asker, number)) }
            cancelled.askerIsGone(asker)
            cancelled.askerIsGone(asker)
        }
        // The newest of the last: their requests may still wait at a port.
        let kept = askers.suffix(CancelledRequests.mostGone)
        #expect(askers.filter { cancelled.contains(request($0, 99)) } == Array(kept))
        #expect((0..<100 as Range<UInt64>).count { cancelled.contains(request(askers[999], $0)) } == 64)
        for asker in kept { for number in 0..<100 as Range<UInt64> { cancelled.remove(request(asker, number)) } }
        #expect(cancelled.isEmpty)
        // A process that comes back has its room again.
        for number in 0..<100 as Range<UInt64> { cancelled.insert(request(askers[0], number)) }
        #expect(cancelled.contains(request(askers[0], 0)))
        cancelled.forget(askers[0])
        #expect(cancelled.isEmpty)
    }
}
