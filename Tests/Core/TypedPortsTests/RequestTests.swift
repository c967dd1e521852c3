import OwnThread
import Ports
import PortsInspection
import TestSupport
import Testing

@testable import TypedPorts

/// Typed requests and streams, inside a runtime and between two. No test blocks its thread.
@Suite(.ownThread) struct RequestTests {
    private let folder = TemporaryFolder()

    struct Lookup: PortRequest, Equatable {
        enum Failure: Error, Codable, Equatable { case unknown(String) }
        typealias Reply = String
        var word: String
    }

    struct Get<Item>: PortRequest { typealias Reply = EmptyReply }
    enum Holder<Item> { struct Ask<Other>: PortRequest { typealias Reply = EmptyReply } }

    struct Add: PortRequest {
        typealias Reply = Int
        var terms: [Int]
    }

    struct Connect: PortRequest {
        struct Reply: Codable, Sendable {
            var port: MachPort.SendRight
            var bytes: MessageBytes
        }
        var port: MachPort.SendRight
        var bytes: MessageBytes
    }

    struct Count: PortStreamRequest {
        enum Failure: Error, Codable, Equatable { case stopped(at: Int) }
        typealias Element = Int
        var from: Int
        var to: Int
        var failsAtEnd = false
    }

    struct Chunks: PortStreamRequest {
        typealias Element = MessageBytes
        var count: Int
        var size: Int
    }

    struct Ports: PortStreamRequest {
        typealias Element = MachPort.SendRight
        var port: MachPort.SendRight
        var count: Int
    }

    /// The request of a client from other sources.
    struct OtherLookup: PortRequest {
        typealias Reply = Int
        static let requestName = Lookup.requestName
        var word: String
    }

    struct Unknown: PortRequest { typealias Reply = EmptyReply }

    private func stand(areTwo: Bool) throws -> (server: RequestServer, client: RequestClient, runtimes: [PortRuntime]) {
        let one = PortRuntime(directory: folder.path)
        let other = areTwo ? PortRuntime(directory: folder.path) : one
        let server = try RequestServer(name: "typed", nameServer: one.nameServer)
        return (server, RequestClient("typed", nameServer: other.nameServer), [one, other])
    }

    @Test(arguments: [false, true])
    func `requests, replies and errors have their types`(_ areTwo: Bool) async throws {
        let (server, client, runtimes) = try stand(areTwo: areTwo)
        server.handle(Lookup.self) { lookup in
            if lookup.word == "none" { throw Lookup.Failure.unknown("none") }
            if lookup.word == "odd" { throw RequestFailure("odd") }
            if lookup.word == "proxied" {
                do { _ = try await client.request(Unknown()) } catch PortError.failed(_, let failure) { throw failure }
            }
            return lookup.word.uppercased()
        }
        server.handle(Add.self) { add in add.terms.reduce(0, +) }
        let running = Task { try await server.run() }
        #expect(try await client.request(Lookup(word: "port")) == "PORT")
        #expect(try await client.request(Add(terms: Array(0..<1000))) == 499_500)
        await #expect(throws: Lookup.Failure.unknown("none")) { try await client.request(Lookup(word: "none")) }
        func text(_ body: () async throws -> Void) async -> String {
            do { try await body() } catch PortError.failed(_, let failure) { return failure.text } catch {
                return "another: \(error)"
            }
            return ""
        }
        #expect(await text { _ = try await client.request(Lookup(word: "odd")) } == "odd")
        let unknown = await #expect(throws: PortError.self) { try await client.request(Unknown()) }
        let known = "the server knows no RequestTests.Unknown: it handles RequestTests.Add, RequestTests.Lookup; "
        #expect(
            unknown?.description.hasSuffix("cannot answer: \(known)is it older than its client?") == true,
            "\(String(describing: unknown))")
        // One that another server has answered so is the handler's failure.
        let proxied = await #expect(throws: PortError.self) { try await client.request(Lookup(word: "proxied")) }
        #expect(
            proxied?.description.hasSuffix("failed: \(known)is it older than its client?") == true,
            "\(String(describing: proxied))")
        let undecodable = await #expect(throws: DecodingError.self) {
            try await client.request(OtherLookup(word: "port"))
        }
        #expect("\(String(describing: undecodable))".contains("the reply of typed to RequestTests.Lookup: "))
        #expect("\(String(describing: undecodable))".contains("build server and client from the same sources"))
        // Bytes of another type, under the request's own id.
        let raw = try await RemoteMessagePort(name: "typed", nameServer: runtimes[1].nameServer, before: .patience)
        let wrong = await text { _ = try await raw.request(MachPort.Message(id: Lookup.messageID, [.bytes([1, 2])])) }
        #expect(wrong.contains("the request is no RequestTests.Lookup"))
        #expect(wrong.contains("build server and client from the same sources"))
        #expect(
            await text { _ = try await raw.request(MachPort.Message(id: 7)) }
                == "the server knows no request of the id 7: it handles RequestTests.Add, RequestTests.Lookup")
        #expect(await Helper { try? client.request(Lookup(word: "thread")) }.ended() == "THREAD")
        await server.finish()
        try await running.value
    }

    @Test(arguments: [false, true])
    func `requests and streams in progress are told by their types`(_ areTwo: Bool) async throws {
        let (server, client, runtimes) = try stand(areTwo: areTwo)
        let (gate, opener) = AsyncStream.makeStream(of: Void.self)
        let (numbers, feeder) = AsyncStream.makeStream(of: Int.self)
        server.handle(Lookup.self) { lookup in
            for await _ in gate {}
            return lookup.word
        }
        server.handle(Count.self) { _ in numbers }
        let running = Task { try await server.run(atMost: 1) }
        let right = try await runtimes[1].nameServer.port(forName: "typed", before: .patience)
        func service() async -> PortInfo? { try? await right.info(observing: .milliseconds(20)) }
        let counting = Task {
            var sum = 0
            for try await number in client.stream(Count(from: 1, to: 3)) { sum += number }
            return sum
        }
        #expect(await waitUntil { await service()?.requests.lasting == 1 })
        // The only handler is not the stream's.
        let asking = Task { try await client.request(Lookup(word: "port")) }
        #expect(await waitUntil { await service()?.requests.count == 1 })
        let seen = try #require(await service())
        #expect(seen.takers.handlers?.count == 1)
        #expect(seen.takers.handlers?.limit == 1)
        #expect(seen.condition != .served)
        #expect(seen.requests.oldest.map(\.name) == ["RequestTests.Lookup", "RequestTests.Count"])
        #expect(seen.requests.oldest.map(\.mayLast) == [false, true])
        #expect(seen.requests.lasting == 1)
        opener.finish()
        #expect(try await asking.value == "port")
        for number in 1...3 { feeder.yield(number) }
        feeder.finish()
        #expect(try await counting.value == 6)
        #expect(await waitUntil { await service()?.requests.lasting == 0 })
        await server.finish()
        try await running.value
    }

    @Test(arguments: [false, true])
    func `ports and bytes travel inside values`(_ areTwo: Bool) async throws {
        let (server, client, runtimes) = try stand(areTwo: areTwo)
        server.handle(Connect.self) { connect in
            try await connect.port.send(MachPort.Message(id: 5))
            return Connect.Reply(port: connect.port, bytes: connect.bytes)
        }
        let running = Task { try await server.run() }
        let port = try MachPort(nameServer: runtimes[1].nameServer)
        let bytes = [UInt8](repeating: 3, count: 100_000)
        let reply = try await client.request(Connect(port: port.sendRight, bytes: MessageBytes(bytes)))
        #expect(reply.port == port.sendRight)
        #expect(reply.bytes.withBytes { $0.byteCount } == 100_000)
        #expect(try await port.receive().id == 5)
        await server.finish()
        try await running.value
    }

    @Test(arguments: [false, true], [0, 1, 100, 10_000])
    func `a stream has all elements in order, and its end`(_ areTwo: Bool, _ count: Int) async throws {
        let (server, client, runtimes) = try stand(areTwo: areTwo)
        server.handle(Count.self) { count in
            AsyncThrowingStream<Int, any Error> { continuation in
                for number in count.from..<count.to { continuation.yield(number) }
                continuation.finish(throwing: count.failsAtEnd ? Count.Failure.stopped(at: count.to) : nil)
            }
        }
        let running = Task { try await server.run() }
        for failsAtEnd in [false, true] {
            var numbers: [Int] = []
            var failure: Count.Failure?
            do {
                for try await number in client.stream(Count(from: 0, to: count, failsAtEnd: failsAtEnd)) {
                    numbers.append(number)
                }
            } catch let error as Count.Failure {
                failure = error
            }
            #expect(numbers == Array(0..<count))
            #expect(failure == (failsAtEnd ? .stopped(at: count) : nil))
        }
        await server.finish()
        try await running.value
        withExtendedLifetime(runtimes) {}
    }

    /// Counts up for ever, and how far.
    private struct Endless: AsyncSequence, Sendable {
        let made = Shared(0)
        let ended = Shared(false)

        struct Iterator: AsyncIteratorProtocol {
            let sequence: Endless
            mutating func next() async throws -> Int? {
                if Task.isCancelled { return nil }
                return sequence.made.withLock {
                    $0 += 1
                    return $0
                }
            }
        }

        func makeAsyncIterator() -> Iterator { Iterator(sequence: self) }
    }

    @Test(arguments: [false, true])
    func `ports and large bytes travel as elements, in bounds`(_ areTwo: Bool) async throws {
        let (server, client, runtimes) = try stand(areTwo: areTwo)
        let made = Shared(0)
        server.handle(Chunks.self) { chunks in
            AsyncStream(unfolding: {
                made.withLock { made in
                    made += 1
                    return made > chunks.count
                        ? nil : MessageBytes([UInt8](repeating: UInt8(made & 0xff), count: chunks.size))
                }
            })
        }
        server.handle(Ports.self) { ports in
            AsyncStream { continuation in
                for _ in 0..<ports.count { continuation.yield(ports.port) }
                continuation.finish()
            }
        }
        let running = Task { try await server.run() }
        var taken = 0
        for try await chunk in client.stream(Chunks(count: 400, size: 64 << 10)) {
            taken += 1
            #expect(chunk.count == 64 << 10)
            #expect(chunk.withBytes { $0.unsafeLoad(fromByteOffset: 0, as: UInt8.self) } == UInt8(taken & 0xff))
            // Some batches of one element each wait.
            if taken == 10 { #expect(made.withLock { $0 } < 100) }
        }
        #expect(taken == 400)
        let port = try MachPort(nameServer: runtimes[1].nameServer)
        taken = 0
        for try await right in client.stream(Ports(port: port.sendRight, count: 5000)) {
            taken += 1
            #expect(right == port.sendRight)
        }
        #expect(taken == 5000)
        await server.finish()
        try await running.value
        withExtendedLifetime(runtimes) {}
    }

    @Test(arguments: [false, true])
    func `an error of a stream's handler comes behind all elements`(_ areTwo: Bool) async throws {
        let (server, client, runtimes) = try stand(areTwo: areTwo)
        server.handle(Count.self) { count in
            AsyncThrowingStream<Int, any Error> { continuation in
                for number in 0..<count.to { continuation.yield(number) }
                continuation.finish(throwing: PortError.unavailable(reason: "upstream"))
            }
        }
        let running = Task { try await server.run() }
        for _ in 0..<10 {
            var taken = 0
            do {
                for try await _ in client.stream(Count(from: 0, to: 2000)) { taken += 1 }
            } catch PortError.failed(_, let failure) {
                #expect(failure.text.contains("upstream"))
            }
            #expect(taken == 2000)
        }
        await server.finish()
        try await running.value
        withExtendedLifetime(runtimes) {}
    }

    @Test(arguments: [false, true])
    func `an element that is too large fails the stream, behind all before`(_ areTwo: Bool) async throws {
        let (server, client, runtimes) = try stand(areTwo: areTwo)
        server.handle(Chunks.self) { chunks in
            AsyncStream { continuation in
                for size in [10, 20, 70 << 20, 30] {
                    continuation.yield(MessageBytes([UInt8](repeating: 1, count: size)))
                }
                continuation.finish()
            }
        }
        let running = Task { try await server.run() }
        var sizes: [Int] = []
        do {
            for try await chunk in client.stream(Chunks(count: 0, size: 0)) { sizes.append(chunk.count) }
        } catch PortError.failed(_, let failure) {
            #expect(failure.text.contains("too large"))
        }
        #expect(sizes == [10, 20])
        await server.finish()
        try await running.value
        withExtendedLifetime(runtimes) {}
    }

    @Test func `a server without streams fails a request for one`() async throws {
        let (server, client, runtimes) = try stand(areTwo: true)
        // It answers, and knows nothing of streams.
        let serving = Task { try await server.port.serve { _ in [] } }
        await #expect(throws: PortError.self) {
            for try await _ in client.stream(Count(from: 0, to: 1)) { Issue.record("an element") }
        }
        server.port.invalidate()
        try await serving.value
        withExtendedLifetime(runtimes) {}
    }

    @Test func `a stream that nobody begins times out`() async throws {
        let (server, client, runtimes) = try stand(areTwo: true)
        // Nobody serves the port.
        var iterator = client.stream(Count(from: 0, to: 1), timeout: .milliseconds(50)).makeAsyncIterator()
        await #expect(throws: PortError.receiveTimedOut(port: server.port.sendRight.identity)) {
            try await iterator.next()
        }
        #expect(try await iterator.next() == nil)
        let nobody = RequestClient("nobody", nameServer: runtimes[1].nameServer)
        await #expect(throws: PortError.self) {
            for try await _ in nobody.stream(Count(from: 0, to: 1), timeout: .milliseconds(20)) {}
        }
        server.port.invalidate()
    }

    @Test func `streams that nobody reads hold up no requests, and have a limit`() async throws {
        let (server, client, runtimes) = try stand(areTwo: true)
        server.handle(Count.self) { count in Endless() }
        server.handle(Add.self) { add in add.terms.reduce(0, +) }
        let running = Task { try await server.run(atMost: 2, streamsAtMost: 10) }
        var iterators = (0..<10).map { _ in client.stream(Count(from: 0, to: 0)).makeAsyncIterator() }
        for index in iterators.indices { #expect(try await iterators[index].next() == 1) }
        #expect(try await client.request(Add(terms: [1, 2])) == 3)
        var further = client.stream(Count(from: 0, to: 0)).makeAsyncIterator()
        await #expect(throws: PortError.self) { try await further.next() }
        // Streams without an end last until the deadline, and then the server ends.
        #expect(await server.finish(timeout: .milliseconds(20)) == false)
        try await running.value
        iterators = []
        withExtendedLifetime(runtimes) {}
    }

    @Test func `an element that cannot be decoded ends the stream, behind those before`() async throws {
        var batch = StreamBatch()
        let coder = CBORCoder()
        for number in 0..<100 { try batch.append(number, coder) }
        try batch.append("no number", coder)
        try batch.append(101, coder)
        var received = ReceivedBatch<Int>(batch.message)
        for number in 0..<100 { #expect(try received.popFirst(coder) == number) }
        for _ in 0..<2 { #expect(throws: DecodingError.self) { try received.popFirst(coder) } }
        for bytes in [[1], [9, 0, 0, 0, 1], [255, 255, 255, 255]] as [[UInt8]] {
            var malformed = ReceivedBatch<Int>(MachPort.Message([.bytes(bytes)]))
            #expect(throws: DecodingError.self) { try malformed.popFirst(coder) }
        }
    }

    @Test(arguments: [false, true])
    func `a slow reader slows its server, and one that stops ends the handler`(_ areTwo: Bool) async throws {
        let (server, client, runtimes) = try stand(areTwo: areTwo)
        let endless = Endless()
        server.handle(Count.self) { count in endless }
        let running = Task { try await server.run() }
        var taken = 0
        for try await number in client.stream(Count(from: 0, to: 0)) {
            taken += 1
            #expect(number == taken)
            if taken == 1000 { break }
        }
        // Some batches of 32 KiB, each element 5 to 9 bytes.
        let made = endless.made.withLock { $0 }
        #expect(made < 300_000)
        // The handler returns, which finishing waits for.
        #expect(await server.finish(timeout: .patience))
        try await running.value
        withExtendedLifetime(runtimes) {}
    }

    @Test(arguments: [false, true])
    func `a stream whose server ends tells why`(_ areTwo: Bool) async throws {
        let (server, client, runtimes) = try stand(areTwo: areTwo)
        server.handle(Count.self) { count in Endless() }
        let running = Task { try await server.run() }
        var iterator = client.stream(Count(from: 0, to: 0)).makeAsyncIterator()
        #expect(try await iterator.next() == 1)
        running.cancel()
        try await running.value
        await #expect(throws: (any Error).self) { while try await iterator.next() != nil {} }
        #expect(try await iterator.next() == nil)
        server.port.invalidate()
        withExtendedLifetime(runtimes) {}
    }

    @Test func `a cancelled reader ends at once, and its server's handler with it`() async throws {
        let (server, client, runtimes) = try stand(areTwo: true)
        let (isAsked, isEnded) = (Shared(false), Shared(false))
        server.handle(Count.self) { count in
            isAsked.withLock { $0 = true }
            return AsyncStream<Int> { $0.onTermination = { _ in isEnded.withLock { $0 = true } } }
        }
        let running = Task { try await server.run() }
        let reading = Task { for try await _ in client.stream(Count(from: 0, to: 0)) {} }
        #expect(await waitUntil { isAsked.withLock { $0 } })
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
        #expect(await waitUntil { isEnded.withLock { $0 } })
        await server.finish()
        try await running.value
        withExtendedLifetime(runtimes) {}
    }

    @Test func `values travel over plain ports`() async throws {
        let port = try MachPort(nameServer: PortNameServer(directory: folder.path))
        try await port.sendRight.send(Lookup(word: "a"), id: 7)
        let message = try await port.receive()
        #expect(message.id == 7)
        #expect(try message.decode(Lookup.self) == Lookup(word: "a"))
        #expect(throws: DecodingError.self) { try message.decode(Add.self) }
    }

    @Test func `the id of a request is the FNV-1a hash of its name`() {
        // "foobar" is among the test vectors of the hash's authors.
        enum Named {
            struct foobar: PortRequest { typealias Reply = EmptyReply }
        }
        #expect(Named.foobar.messageID == 0xbf9c_f968)
        #expect(Add.messageID != Lookup.messageID)
        #expect(Add.requestName == "RequestTests.Add")
        #expect(Holder<Int>.Ask<String>.requestName == "RequestTests.Holder<Int>.Ask<String>")
        #expect(Duration.Ask.requestName == "Duration.Ask")
        #expect(Get<Add>.requestName == "RequestTests.Get<RequestTests.Add>")
        #expect(
            Get<[String: (Int, Add?)]>.requestName
                == "RequestTests.Get<Dictionary<String, (Int, Optional<RequestTests.Add>)>>")
    }
}

extension Duration { struct Ask: PortRequest { typealias Reply = EmptyReply } }
