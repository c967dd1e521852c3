import CRunLoopShims
import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing
import ZeroMQ

@testable import FuzzTargets
@testable import Ports

/// What comes from peers that do not keep to the rules.
@Suite(.ownThread) struct HostileInputTests {
    let sandbox = Sandbox()

    /// Heap that comes and goes: queues of libzmq's, and what the allocator keeps for each thread.
    private static let slack = 1 << 20

    /// Sends frames past the library.
    private func send(_ count: Int, to target: Target, _ frame: () -> [UInt8]) throws {
        let context = try ZeroMQContext()
        do {
            let socket = try ZeroMQSocket(.push, in: context)
            try socket.set(.linger(-1))
            try socket.connect("ipc://" + target.path)
            for _ in 0..<count {
                let bytes = frame()
                var frame = try ZeroMQFrame(count: bytes.count)
                frame.withUnsafeMutableBytes { $0.copyBytes(from: bytes) }
                #expect(try waitUntil { try socket.send(&frame) })
            }
        }
        context.terminate()
    }

    @Test func `spoilt frames are counted and none is handled, while good peers are served`() throws {
        let target = try Target(sandbox)
        var generator = SplitMix64(seed: 1)
        func spoilt() -> [UInt8] {
            while true {
                let bytes = Samples.spoilt(Samples.frames, &generator)
                // Some changes make another good frame.
                let isGood = bytes.withUnsafeBytes { (try? FrameHeader(checking: $0)) != nil }
                if !isGood { return bytes }
            }
        }
        // Few beside other tests: a minute after the first line, the log may have one more.
        let first = Scale.count(200, long: 1000)
        try send(first, to: target, spoilt)
        #expect(try waitUntil { try target.seen().malformed == first })
        let before = try target.seen()
        let (count, good) = Scale.isLong ? (1_000_000, 100_000) : (1000, 300)
        let sender = Helper {
            (0..<good).count { _ in (try? target.right.send(MachPort.Message(id: 9), before: .patience)) != nil }
        }
        try send(count, to: target, spoilt)
        #expect(sender.value(before: .now + .seconds(600)) == good)
        #expect(try waitUntil { try target.seen().malformed == first + count })
        // The end of a connection comes behind its last frame.
        #expect(try waitUntil { try target.seen().descriptors <= before.descriptors + 1 })
        let after = try target.seen()
        #expect(after.handled == good)
        #expect(after.heap < before.heap + Self.slack)
        if !Scale.isLong { #expect(target.log.count <= LogRateLimit.mostAboutOne) }
    }

    @Test func `noise on a port's socket ends its connection, and nothing else`() throws {
        let target = try Target(sandbox)
        let before = try target.seen()
        var generator = SplitMix64(seed: 2)
        for number in 0..<(Scale.isLong ? 20_000 : 200) {
            let stream = try RawStream(to: target.path)
            let noise = Samples.spoilt(
                [RawStream.greeting, RawStream.greeting + RawStream.ready, RawStream.ready] + Samples.frames, &generator
            )
            // Some behind a good beginning, some in place of it.
            if number % 3 > 0 { stream.shout(RawStream.greeting) }
            if number % 3 > 1 { stream.shout(RawStream.ready) }
            stream.shout(noise)
        }
        try target.right.send(MachPort.Message(id: 9), before: .patience)
        #expect(try waitUntil { try target.seen().descriptors <= before.descriptors })
        let after = try target.seen()
        #expect(after.handled == 1)
        #expect(after.heap < before.heap + Self.slack)
    }

    @Test func `noise on the control connection cuts its sender off, and is logged once`() throws {
        let target = try Target(sandbox)
        var generator = SplitMix64(seed: 3)
        var sent = 0
        func shout(_ count: Int) throws {
            while sent < count {
                let caller = try LocalSocket.make(.sequencedPackets)
                defer { close(caller) }
                guard waitUntil({ LocalSocket.connect(caller, to: target.controlPath) == 0 }) else {
                    Issue.record("it lets nobody in")
                    return
                }
                var packets = (0..<generator.next() % 8).map { _ in Samples.spoilt(Samples.packets, &generator) }
                if generator.next() % 4 > 0 { packets.insert(Samples.hello(), at: 0) }
                for packet in packets { _ = Glibc.send(caller, packet, packet.count, Int32(MSG_NOSIGNAL)) }
                sent += packets.count
            }
        }
        /// Whoever hangs up too soon may not be heard to the end.
        func expectToBeCutOff() throws {
            let caller = try LocalSocket.make(.sequencedPackets)
            defer { close(caller) }
            #expect(waitUntil { LocalSocket.connect(caller, to: target.controlPath) == 0 })
            var buffer = [UInt8](repeating: 0, count: 64)
            for (packet, answer) in [(Samples.hello(), ControlHello.size), ([9], 0)] {
                #expect(Glibc.send(caller, packet, packet.count, Int32(MSG_NOSIGNAL)) == packet.count)
                #expect(crl_poll(caller, -1, MonotonicInstant.patience.timeout) > 0)
                #expect(recv(caller, &buffer, buffer.count, 0) == answer)
            }
        }
        // Before what else is wrong with it: the log says so much of one process.
        try expectToBeCutOff()
        try shout(1000)
        #expect(try waitUntil { try target.seen().descriptors < 40 })
        let before = try target.seen()
        try shout(Scale.isLong ? 1_000_000 : 3000)
        #expect(try waitUntil { try target.seen().descriptors <= before.descriptors })
        #expect(try target.seen().heap < before.heap + Self.slack)
        for _ in 0..<3 { try expectToBeCutOff() }
        #expect(target.log.count { $0.contains("malformed control message") } == 1)
        if !Scale.isLong { #expect(target.log.count <= LogRateLimit.mostAboutOne) }
        let asker = Child("greet", in: sandbox)
        #expect(asker.wait() == 0)
        #expect(try target.seen().handled == 1)
    }

    // MARK: Sizes

    @Test func `sizes that are announced and not sent cost no memory`() throws {
        let target = try Target(sandbox)
        let before = try target.seen()
        let tooLarge = [(64 << 20) + 1, 1 << 40, UInt64(Int64.max), .max]
        for size in tooLarge { #expect(try RawStream(to: target.path, saying: RawStream.announced(size)).isClosed) }
        // Inside a frame of the right size: components, a reply right, and a right's path that are not there.
        var bad: [[UInt8]] = []
        for count in [1_000_000, UInt32.max] {
            var bytes = Samples.frame()
            bytes.withUnsafeMutableBytes { $0.setLittle(count, at: 8) }
            bad.append(bytes)
        }
        for size in [1, 155, UInt8.max] {
            var bytes = Samples.frame()
            bytes[3] = size
            bad.append(bytes)
        }
        for length in [11, UInt16.max] {
            var right = Samples.bytes(of: Samples.right)
            right.withUnsafeMutableBytes { $0.setLittle(length, at: 2) }
            bad += [Samples.frame(reply: right), Samples.frame(components: [(right, true)])]
        }
        var rest = bad
        try send(bad.count, to: target) { rest.removeFirst() }
        #expect(try waitUntil { try target.seen().malformed == bad.count })
        let after = try target.seen()
        #expect(after.handled == 0)
        #expect(after.heap < before.heap + Self.slack)
    }

    @Test func `a frame with a path of 10 MB is malformed`() throws {
        let target = try Target(sandbox)
        let right = Samples.bytes(of: Samples.right) + [UInt8](repeating: 0x2f, count: 10 << 20)
        try send(1, to: target) { Samples.frame(components: [(right, true)]) }
        #expect(try waitUntil { try target.seen().malformed == 1 })
        #expect(try target.seen().handled == 0)
    }

    @Test func `a name of 10 MB is refused without a copy of it`() {
        let child = Child("large-names", in: sandbox)
        #expect(child.wait() == 0)
    }

    @Test func `an entry of 10 MB is not read`() throws {
        let file = try sandbox.plant("", as: "large")
        #expect(truncate(file, 10 << 20) == 0)
        #expect(errorKind { _ = try sandbox.names.port(forName: "large") } == "untrustedDirectory")
        #expect(try sandbox.names.names() == [])
        let port = try MachPort(nameServer: sandbox.names)
        #expect(errorKind { try sandbox.names.register(port, name: "large") } == "untrustedDirectory")
        try sandbox.names.register(port, name: "small")
        #expect(try sandbox.names.names() == ["small"])
    }

    // MARK: Versions

    @Test func `a frame of another version is counted, and both versions are logged`() throws {
        let target = try Target(sandbox)
        var frame = Samples.frame()
        frame[1] = 7
        var right = Samples.bytes(of: Samples.right)
        right[0] = 9
        // What else was wrong with the peer's frames hides nothing.
        var frames = [[1], [1], frame, frame, Samples.frame(components: [(right, true)]), Samples.frame(reply: right)]
        try send(frames.count, to: target) { frames.removeFirst() }
        #expect(try waitUntil { try target.seen().malformed == 6 })
        #expect(waitUntil { target.log.count { $0.contains("dropped a frame") } == 3 })
        #expect(target.hasLogged("(pid \(getpid()))", "the frame has version 7", "version \(Wire.version)"))
        #expect(
            target.hasLogged(
                "(pid \(getpid()))", "a right in the frame has version 9", "version \(WireRight.version)"))
    }

    @Test func `a hello of another version is refused, and both versions are logged`() throws {
        let target = try Target(sandbox)
        let caller = try LocalSocket.make(.sequencedPackets)
        defer { close(caller) }
        #expect(LocalSocket.connect(caller, to: target.controlPath) == 0)
        let hello = Samples.hello(version: 9)
        #expect(Glibc.send(caller, hello, hello.count, 0) == hello.count)
        #expect(waitUntil { target.hasLogged("(pid \(getpid()))", "version 9", "version \(ControlHello.version)") })
    }

    @Test func `a name's entry of another version is told, and left alone`() throws {
        try sandbox.plant("ports-name 2\nsomething else\n", as: "foreign")
        let port = try MachPort(nameServer: sandbox.names)
        let attempts: [() throws -> Void] = [
            { _ = try sandbox.names.port(forName: "foreign") },
            { try sandbox.names.register(port, name: "foreign") },
            { _ = try sandbox.names.waitForPort(forName: "foreign", before: .distantPast) },
            { _ = try RemoteMessagePort(name: "foreign", nameServer: sandbox.names) },
        ]
        for attempt in attempts {
            let error = portError(attempt)
            guard case .incompatibleVersion(_, ours: NameEntry.version, theirs: 2)? = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
            #expect(error?.description.contains("version 2") == true)
        }
        try sandbox.names.register(port, name: "other")
        #expect(sandbox.files.contains("names/foreign"))
    }

    // MARK: Ports that move

    /// A process offers a port, and sends it messages without end.
    @Test func `a port that brings too much along is not taken`() throws {
        let homes = Homes(sandbox)
        let (owner, other) = (homes.runtime(), homes.runtime())
        let port = try MachPort(nameServer: owner.nameServer)
        for id in 1...6 as ClosedRange<UInt32> {
            try port.sendRight.send(MachPort.Message(id: id, bytes: [UInt8](repeating: 1, count: 100)), before: nil)
        }
        let right = try homes.received(port, in: other)
        for limits in [MovedMessages(most: 5), MovedMessages(mostBytes: 600)] {
            var reason = ""
            // The owner may not have noticed the end of the last attempt.
            repeat {
                let claim = try Claim(right.offer, nil, until: .now + .seconds(60), limits)
                try claim.begin()
                if case .cannotMove(let text)? = portError({ _ = try claim.end() }) { reason = text }
            } while reason.contains("is being handed over")
            #expect(reason.hasPrefix("more than"))
        }
        // It goes on where it is.
        for id in 1...6 as ClosedRange<UInt32> { #expect(try port.receive(before: .patience).id == id) }
        #expect(waitUntil { (try? right.claim(before: .patience))?.id == port.id })
    }

    @Test func `what may come with a port has bounds`() {
        #expect(MovedMessages.most == 1 << 20)
        #expect(MovedMessages.mostBytes == 1 << 30)
        #expect(LentRings.most <= 4096)
        #expect(PortArrival.mostQuestions == (4096, 65_536))
    }

    @Test func `a borrower that makes rings without end takes so many descriptors of the lender`() throws {
        var rings = LentRings(most: 5)
        let one = SenderCredentials(pid: 1, uid: geteuid(), gid: getegid())
        func ring() throws -> (LentRing, RingMemory) {
            let (descriptor, memory) = try #require(RingMemory.make())
            let home = PortID(incarnation: .random(), number: 1)
            return (LentRing(memory: descriptor, peer: .random(), sender: one, home: home), memory)
        }
        var memories: [RingMemory] = []
        defer { for memory in memories { memory.unmap() } }
        for number in 0..<8 {
            let (made, memory) = try ring()
            memories.append(memory)
            // Something waits in each.
            memory.head.pointee.store(8 << 2, ordering: .releasing)
            #expect(rings.add(made) == (number < 5))
        }
        #expect(rings.all.count == 5)
    }

    @Test func `questions about requests of a lent port have a bound, and an answer beyond it`() {
        final class Nobody: StandbyPort {
            var directory: RegistryDirectory? { nil }
            func comesBack(from home: PortID) throws(PortError) -> Bool { false }
            func hasCome(as port: any AnyObject & Sendable) {}
        }
        let arrival = PortArrival()
        arrival.wait(Nobody())
        let answers = Shared<[Incarnation: [UInt64: Bool]]>([:])
        func ask(_ request: UInt64, of asker: Incarnation) {
            arrival.ask(for: request, of: asker) { request, isThere in
                answers.withLock { $0[asker, default: [:]][request] = isThere }
            }
        }
        let greedy = Incarnation.random()
        // Asked again on another connection, a question counts once.
        for _ in 0..<2 { for request in 1...5000 as ClosedRange<UInt64> { ask(request, of: greedy) } }
        #expect(answers.withLock { $0[greedy]?.count } == 904)
        #expect(answers.withLock { $0[greedy]?.values.contains(true) } == false)
        let modest = Incarnation.random()
        ask(1, of: modest)
        #expect(answers.withLock { $0[modest] } == nil)
        for _ in 0..<20 {
            let other = Incarnation.random()
            for request in 1...4096 as ClosedRange<UInt64> { ask(request, of: other) }
        }
        arrival.came(with: [LocalMessage(kind: .request, id: 1, request: 1, components: [], replyRight: nil, size: 0)])
        #expect(answers.withLock { $0[modest] } == [1: true])
        #expect(answers.withLock { $0[greedy]?.count } == 5000)
        #expect(answers.withLock { $0[greedy]?[1] } == true)
        #expect(answers.withLock { $0[greedy]?[2] } == false)
        #expect(answers.withLock { $0.count } == 22)
    }
}
