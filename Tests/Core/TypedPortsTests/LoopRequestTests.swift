import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports
@testable import TypedPorts

/// Requests and streams whose replies come to handlers on run loops. No test blocks its thread.
@Suite(.ownThread) struct LoopRequestTests {
    private let folder = TemporaryFolder()

    private struct Double: PortRequest {
        struct Failure: Error, Codable, Equatable {}
        typealias Reply = Int
        var number: Int
    }

    private struct Count: PortStreamRequest {
        struct Failure: Error, Codable, Equatable {}
        typealias Element = Int
        var to: Int
        var failsAtEnd = false
    }

    /// Calls a body with a client of a server, on a thread with a loop.
    private func run<Result: Sendable>(_ body: @escaping @Sendable (RequestClient) -> Result) async throws -> Result? {
        let runtimes = [PortRuntime(directory: folder.path), PortRuntime(directory: folder.path)]
        let server = try RequestServer(name: "loops", nameServer: runtimes[0].nameServer)
        server.handle(Double.self) { double in
            if double.number == 0 { throw Double.Failure() }
            // Never answered: until its asker gives up.
            if double.number < 0 { try await Task.sleep(for: .seconds(1000)) }
            return 2 * double.number
        }
        server.handle(Count.self) { count in
            AsyncThrowingStream<Int, any Error> { continuation in
                for number in 0..<max(0, count.to) { continuation.yield(number) }
                if count.to >= 0 { continuation.finish(throwing: count.failsAtEnd ? Count.Failure() : nil) }
            }
        }
        let running = Task { try await server.run() }
        let client = RequestClient("loops", nameServer: runtimes[1].nameServer)
        let result = await Helper { body(client) }.ended()
        // A request that was given up ends its handler.
        #expect(await server.finish(timeout: .patience))
        try await running.value
        withExtendedLifetime(runtimes) {}
        return result
    }

    @Test func `a reply or an error comes on the asking loop, which runs until then`() async throws {
        let texts = try await run { client in
            let loop = ThreadRunLoop.current
            var texts: [String] = []
            for number in [4, 0] {
                let request = try? client.request(Double(number: number)) { reply in
                    switch reply {
                    case .success(let value): texts.append("\(value) \(loop.isCurrent)")
                    case .failure(let error): texts.append("\(error is Double.Failure) \(loop.isCurrent)")
                    }
                }
                if request?.isPending != true { texts.append("not pending") }
                // Ends when the mode is empty.
                try? loop.run()
                if request?.isPending != false { texts.append("pending") }
            }
            return texts
        }
        #expect(texts == ["8 true", "true true"])
    }

    @Test func `a request that times out says so`() async throws {
        let isTimeout = try await run { client in
            var isTimeout = false
            _ = try? client.request(Double(number: -1), timeout: .milliseconds(50)) { reply in
                if case .failure(PortError.receiveTimedOut) = reply { isTimeout = true }
            }
            try? ThreadRunLoop.current.run()
            return isTimeout
        }
        #expect(isTimeout == true)
    }

    @Test(arguments: [0, 1, 63, 64, 65, 10_000], [false, true])
    func `a stream's elements and its end come in order`(_ count: Int, _ failsAtEnd: Bool) async throws {
        let (numbers, end) = try #require(
            try await run { client in
                var (numbers, end): ([Int], String) = ([], "")
                _ = try? client.stream(
                    Count(to: count, failsAtEnd: failsAtEnd), onElement: { numbers.append($0) },
                    onEnd: { error in end += error.map { $0 is Count.Failure ? "failure" : "\($0)" } ?? "end" })
                try? ThreadRunLoop.current.run()
                return (numbers, end)
            })
        #expect(numbers == Array(0..<count))
        #expect(end == (failsAtEnd ? "failure" : "end"))
    }

    @Test func `a cancelled stream calls no handler any more, and ends its server's`() async throws {
        let numbers = try await run { client in
            var (numbers, request): ([Int], LoopRequest?) = ([], nil)
            let mode: ThreadRunLoop.Mode = "reading"
            request = try? client.stream(
                Count(to: 1000), forMode: mode,
                onElement: { number in
                    numbers.append(number)
                    if number == 9 { request?.cancel() }
                }, onEnd: { _ in numbers.append(-1) })
            _ = try? ThreadRunLoop.current.runInMode(mode, seconds: 60)
            return request?.isPending == false ? numbers : []
        }
        #expect(numbers == Array(0..<10))
    }

    @Test func `a loop that a handler runs gets the values that follow`() async throws {
        let numbers = await Helper { () -> [Int] in
            let (loop, added) = (ThreadRunLoop.current, Latch())
            var numbers: [Int] = []
            let handler = ThreadRunLoop.local { (number: Int) in
                numbers.append(number)
                if number == 2 { try? loop.run() }
            }
            let delivery = try? LoopDelivery<Int>(in: loop, forMode: .default, label: "numbers", handler)
            delivery?.start {
                for number in 0..<10 { await delivery?.add(number, isLast: number == 9) }
                added.open()
            }
            // All values wait, and the source is signalled once for them.
            guard added.wait(until: .patience) else { return [] }
            try? loop.run()
            return numbers
        }.ended()
        #expect(numbers == Array(0..<10))
    }

    @Test func `the end of a thread gives up what its loop waits for`() async throws {
        let requests = try await run { client in
            [
                try? client.request(Double(number: -1), timeout: .seconds(1000)) { _ in Issue.record("a reply") },
                try? client.stream(Count(to: -1), onElement: { _ in }, onEnd: { _ in Issue.record("an end") }),
            ]
        }
        #expect(requests?.compactMap { $0?.isPending } == [false, false])
    }
}
