import CRunLoopShims
import Dispatch
import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing
import ZeroMQ

@testable import FuzzTargets
@testable import Ports

/// The writing end of a pipe, to be sent. The reading end reports when neither a process nor a message has the writing end.
final class SentPipe: Sendable {
    let descriptor: MessageDescriptor
    let inode: UInt64
    private let reader: Int32

    init() {
        var ends: [Int32] = [-1, -1]
        precondition(pipe(&ends) == 0, "no descriptor is left")
        reader = ends[0]
        descriptor = MessageDescriptor(owning: ends[1])
        inode = Self.inode(of: ends[1])
    }

    deinit { close(reader) }

    static func inode(of descriptor: Int32) -> UInt64 {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? UInt64(status.st_ino) : 0
    }

    var isClosed: Bool { crl_has_hung_up(reader) }
    /// Whether it is closed soon.
    var closes: Bool { waitUntil { isClosed } }
}

extension MachPort.Message {
    var descriptors: [MessageDescriptor] {
        components.compactMap { if case .descriptor(let descriptor) = $0 { descriptor } else { nil } }
    }

    /// The files behind the descriptors; zeros for those that have not come.
    fileprivate var inodes: [UInt64] {
        descriptors.map { descriptor in (try? descriptor.number).map(SentPipe.inode) ?? 0 }
    }
}

/// The ways from a sender to a port.
enum Way: CaseIterable { case thread, ring, zeroMQ }

/// Messages that carry descriptors.
@Suite(.ownThread) struct MessageDescriptorTests {
    let sandbox = Sandbox()
    /// A runtime lives as long as the test.
    private let runtimes = Shared<[PortRuntime]>([])

    private func runtime(_ sharedMemory: PortRuntime.SharedMemoryUse = .whenPossible) -> PortRuntime {
        let runtime = PortRuntime(directory: sandbox.path, sharedMemory: sharedMemory)
        runtimes.withLock { $0.append(runtime) }
        return runtime
    }

    /// A port, and the right of a sender in another runtime, or in its own.
    private func port(_ way: Way, queueLimit: Int = 1000) throws -> (MachPort, MachPort.SendRight) {
        let owner = runtime(way == .zeroMQ ? .never : .whenPossible)
        let port = try MachPort(queueLimit: queueLimit, nameServer: owner.nameServer)
        if way == .thread { return (port, port.sendRight) }
        try owner.nameServer.register(port, name: "test")
        return (port, try runtime().nameServer.port(forName: "test"))
    }

    /// Sends until there is no room. By ZeroMQ, room may come a moment later.
    private func fill(_ right: MachPort.SendRight) {
        while (try? right.send(MachPort.Message(), before: .now + .milliseconds(100))) != nil {}
    }

    @Test(arguments: Way.allCases)
    func `descriptors come with their messages, in order`(_ way: Way) throws {
        let (port, right) = try port(way)
        var sent: [[UInt64]] = []
        for number in 0..<300 {
            let pipes = (0..<number % 4).map { _ in SentPipe() }
            var components: [MachPort.Message.Component] = [.bytes([UInt8(number % 256)])]
            for pipe in pipes { components += [.descriptor(pipe.descriptor), .bytes([])] }
            let message = MachPort.Message(id: UInt32(number), components)
            let taker = Helper { try? port.receive(before: .patience) }
            try right.send(message, before: .patience)
            for pipe in pipes { #expect(throws: PortError.descriptorGone) { try pipe.descriptor.number } }
            sent.append(pipes.map(\.inode))
            let received = try #require(taker.value(before: .patience) ?? nil)
            #expect(received.id == number)
            #expect(received.inodes == sent[number])
            #expect(received.components.count == components.count)
            for descriptor in received.descriptors {
                #expect(fcntl(try descriptor.number, F_GETFD) & FD_CLOEXEC != 0)
            }
        }
    }

    @Test(arguments: Way.allCases)
    func `a pipe, a socket, memory and a directory do the same in the other process`(_ way: Way) throws {
        let (port, right) = try port(way)
        var (ends, sockets): ([Int32], [Int32]) = ([-1, -1], [-1, -1])
        #expect(pipe(&ends) == 0 && crl_socket_pair(&sockets) == 0)
        let memory = crl_memory_make(4096, false)
        let folder = open(sandbox.path, O_RDONLY | O_DIRECTORY)
        let all = [ends[1], sockets[1], memory, folder].map { MessageDescriptor(owning: $0) }
        try right.send(MachPort.Message(all.map { .descriptor($0) }), before: .patience)
        let received = try port.receive(before: .patience).descriptors.map { try $0.take() }
        #expect(received.count == 4)
        #expect(write(received[0], "p", 1) == 1 && send(received[1], "s", 1, 0) == 1)
        var byte: UInt8 = 0
        #expect(read(ends[0], &byte, 1) == 1 && byte == UInt8(ascii: "p"))
        #expect(recv(sockets[0], &byte, 1, 0) == 1 && byte == UInt8(ascii: "s"))
        var status = stat()
        #expect(fstat(received[2], &status) == 0 && status.st_size == 4096)
        #expect(fstat(received[3], &status) == 0 && status.st_mode & S_IFMT == S_IFDIR)
        for number in received + [ends[0], sockets[0]] { #expect(close(number) == 0) }
    }

    @Test(arguments: Way.allCases)
    func `a message takes 64 descriptors and no more`(_ way: Way) throws {
        let (port, right) = try port(way)
        let pipes = (0..<65).map { _ in SentPipe() }
        func message(_ count: Int) -> MachPort.Message {
            MachPort.Message(pipes.prefix(count).map { .descriptor($0.descriptor) })
        }
        #expect(errorKind { try right.send(message(65), before: .patience) } == "invalidLimit")
        // All are the sender's again.
        for pipe in pipes { _ = try pipe.descriptor.number }
        try right.send(message(64), before: .patience)
        #expect(try port.receive(before: .patience).inodes == pipes.prefix(64).map(\.inode))
        #expect(pipes.prefix(64).allSatisfy { $0.closes })
        #expect(!pipes[64].isClosed)
    }

    @Test(arguments: Way.allCases)
    func `a descriptor is sent once, and taken once`(_ way: Way) throws {
        let (port, right) = try port(way)
        let pipe = SentPipe()
        let twice = MachPort.Message([.descriptor(pipe.descriptor), .descriptor(pipe.descriptor)])
        #expect(throws: PortError.descriptorGone) { try right.send(twice, before: .patience) }
        _ = try pipe.descriptor.number
        let once = MachPort.Message([.descriptor(pipe.descriptor)])
        let copy = try MessageDescriptor(duplicating: pipe.descriptor.number)
        try right.send(once, before: .patience)
        #expect(throws: PortError.descriptorGone) { try right.send(once, before: .patience) }
        let received = try port.receive(before: .patience).descriptors[0]
        close(try received.take())
        #expect(throws: PortError.descriptorGone) { try received.take() }
        #expect(!pipe.isClosed)
        try right.send(MachPort.Message([.descriptor(copy)]), before: .patience)
        #expect(try port.receive(before: .patience).inodes == [pipe.inode])
        #expect(pipe.closes)
    }

    @Test(arguments: Way.allCases)
    func `a message that is not sent leaves its descriptors to the sender`(_ way: Way) throws {
        let (port, right) = try port(way, queueLimit: 2)
        let pipe = SentPipe()
        let message = MachPort.Message([.descriptor(pipe.descriptor)])
        fill(right)
        #expect(errorKind { try right.send(message, before: .now + .milliseconds(50)) } == "sendTimedOut")
        #expect(SentPipe.inode(of: try pipe.descriptor.number) == pipe.inode)
        port.invalidate()
        #expect(waitUntil { !right.isValid })
        #expect(errorKind { try right.send(message, before: .patience) } == "isInvalid")
        #expect(SentPipe.inode(of: try pipe.descriptor.number) == pipe.inode)
    }

    @Test(arguments: Way.allCases)
    func `a task whose message is not sent has its descriptors when it learns that`(_ way: Way) async throws {
        let (port, right) = try port(way, queueLimit: 2)
        let pipe = SentPipe()
        let message = MachPort.Message([.descriptor(pipe.descriptor)])
        fill(right)
        for _ in 0..<20 {
            await #expect(throws: PortError.self) { try await right.send(message, before: .now + .milliseconds(5)) }
            #expect(SentPipe.inode(of: try pipe.descriptor.number) == pipe.inode)
        }
        async let sent: Void = right.send(message, before: .patience)
        var inodes: [UInt64] = []
        while inodes.isEmpty { inodes = try await port.receive(before: .patience).inodes }
        try await sent
        #expect(inodes == [pipe.inode])
    }

    @Test(arguments: Way.allCases)
    func `a sender has a bounded number of descriptors in flight`(_ way: Way) throws {
        guard way != .thread else { return }
        let (port, right) = try port(way)
        var sent: [UInt64] = []
        func send() throws {
            let pipe = SentPipe()
            try right.send(MachPort.Message([.descriptor(pipe.descriptor)]), before: .now + .milliseconds(100))
            sent.append(pipe.inode)
        }
        #expect(errorKind { while sent.count < 1000 { try send() } } == "sendTimedOut")
        #expect(sent.count == DescriptorSender.most)
        for _ in 0..<100 {
            #expect(try port.receive(before: .patience).inodes == [sent.removeFirst()])
            try send()
        }
    }

    @Test(arguments: Way.allCases)
    func `unread messages close their descriptors with the port`(_ way: Way) throws {
        let (port, right) = try port(way)
        let pipes = (0..<100).map { _ in SentPipe() }
        for pipe in pipes { try right.send(MachPort.Message([.descriptor(pipe.descriptor)]), before: .patience) }
        #expect(pipes.allSatisfy { !$0.isClosed })
        port.invalidate()
        #expect(pipes.allSatisfy { $0.closes })
    }

    @Test(arguments: Way.allCases)
    func `a received message is sent on with its descriptors`(_ way: Way) throws {
        let (first, right) = try port(way)
        let pipe = SentPipe()
        try right.send(
            MachPort.Message(id: 7, [.bytes([1]), .descriptor(pipe.descriptor), .port(right)]), before: .patience)
        let message = try first.receive(before: .patience)
        let last = try MachPort(nameServer: runtime().nameServer)
        try sandbox.names.register(last, name: "last")
        try first.runtime.nameServer.port(forName: "last").send(message, before: .patience)
        let received = try last.receive(before: .patience)
        #expect(received.id == 7 && received.inodes == [pipe.inode] && received.port(ofComponent: 2) == right)
        #expect(message.inodes == [0])
        close(try received.descriptors[0].take())
        #expect(pipe.closes)
    }

    @Test(arguments: Way.allCases)
    func `a large message has descriptors, too`(_ way: Way) throws {
        let (port, right) = try port(way)
        let bytes = [UInt8](repeating: 5, count: 3 << 20)
        for _ in 0..<5 {
            let pipe = SentPipe()
            let taker = Helper { try? port.receive(before: .patience) }
            try right.send(MachPort.Message([.bytes(bytes), .descriptor(pipe.descriptor)]), before: .patience)
            let received = try #require(taker.value(before: .patience) ?? nil)
            #expect(received.inodes == [pipe.inode])
            #expect(received.bytes == bytes)
        }
    }

    @Test(arguments: Way.allCases)
    func `many senders and takers never mix descriptors`(_ way: Way) throws {
        let (port, right) = try port(way, queueLimit: 50)
        let count = Scale.count(500, long: 20_000)
        let senders = (0..<3).map { sender in
            Helper {
                for number in 0..<count {
                    let pipes = (0..<(number + sender) % 3).map { _ in SentPipe() }
                    let bytes = pipes.flatMap { withUnsafeBytes(of: $0.inode) { Array($0) } }
                    let components = pipes.map { MachPort.Message.Component.descriptor($0.descriptor) }
                    try? right.send(MachPort.Message([.bytes(bytes)] + components), before: .patience)
                }
            }
        }
        let taken = Shared(0)
        let takers = (0..<3).map { _ in
            Helper { () -> Int in
                var wrong = 0
                while taken.withLock({ $0 }) < 3 * count {
                    guard let message = try? port.receive(before: .now + .milliseconds(100)) else { continue }
                    taken.withLock { $0 += 1 }
                    let bytes = message.inodes.flatMap { withUnsafeBytes(of: $0) { Array($0) } }
                    if message.withBytes({ $0.withUnsafeBytes { Array($0) } }) != bytes { wrong += 1 }
                }
                return wrong
            }
        }
        for sender in senders { #expect(sender.value(before: .patience) != nil) }
        for taker in takers { #expect(taker.value(before: .patience) == 0) }
    }

    // MARK: Requests

    @Test(arguments: Way.allCases)
    func `requests and replies carry descriptors`(_ way: Way) async throws {
        let owner = runtime(way == .zeroMQ ? .never : .whenPossible)
        let asker = way == .thread ? owner : runtime()
        let server = try LocalMessagePort(name: "com.example.files", nameServer: owner.nameServer)
        let serving = Task {
            try await server.serveMessages { request in
                // The pipe's reading end goes back.
                let writer = try request.message.descriptors[0].take()
                write(writer, "x", 1)
                close(writer)
                return MachPort.Message([.descriptor(request.message.descriptors[1])])
            }
        }
        let remote = try await RemoteMessagePort(name: "com.example.files", nameServer: asker.nameServer)
        for _ in 0..<20 {
            var ends: [Int32] = [-1, -1]
            #expect(pipe(&ends) == 0)
            let both = [MessageDescriptor(owning: ends[1]), MessageDescriptor(owning: ends[0])]
            let reply = try await remote.request(
                MachPort.Message(both.map { .descriptor($0) }), timeout: .seconds(30))
            let reader = try #require(reply.descriptors.first).take()
            var bytes: [UInt8] = [0, 0]
            #expect(read(reader, &bytes, 2) == 1 && bytes[0] == UInt8(ascii: "x"))
            #expect(read(reader, &bytes, 2) == 0)
            close(reader)
        }
        serving.cancel()
    }

    @Test(arguments: Way.allCases)
    func `a request that is refused closes its descriptors`(_ way: Way) async throws {
        let (port, right) = try port(way)
        try port.runtime.nameServer.register(port, name: "refusing")
        let asker = way == .thread ? port.runtime : runtime()
        let remote = try await RemoteMessagePort(name: "refusing", nameServer: asker.nameServer)
        port.setHandler { _ in }
        try port.setQueue(.global())
        let pipe = SentPipe()
        await #expect(throws: PortError.self) {
            try await remote.request(MachPort.Message([.descriptor(pipe.descriptor)]), timeout: .seconds(30))
        }
        #expect(pipe.closes)
        withExtendedLifetime(right) {}
    }

    @Test func `a sender that waits for a way for descriptors learns the end of the port`() throws {
        let owner = runtime()
        let port = try MachPort(nameServer: owner.nameServer)
        try owner.nameServer.register(port, name: "ending")
        let right = try runtime().nameServer.port(forName: "ending", before: .patience)
        try right.send(MachPort.Message(id: 1), before: .patience)
        let (hasBegun, goOn, error) = (Latch(), Latch(), Shared<PortError?>(nil))
        try owner.housekeeping.perform {
            hasBegun.open()
            _ = goOn.wait(until: .patience)
        }
        #expect(hasBegun.wait(until: .patience))
        let pipe = SentPipe()
        let thread = try RunLoopThread { _ in
            let found = portError {
                try right.send(MachPort.Message([.descriptor(pipe.descriptor)]), before: .patience)
            }
            error.withLock { $0 = found }
        }
        #expect(waitUntil { right.channel.state.withLock { $0.descriptors.isAsked } })
        port.invalidate()
        goOn.open()
        thread.stop()
        thread.join()
        let text = error.withLock { $0.map { "\($0)" } ?? "" }
        #expect(text.contains("became invalid"), "\(text)")
    }

    // MARK: Processes

    // By ZeroMQ, a killed sender loses what has not left its process.
    @Test(.enabled(if: Sandbox.hasRings))
    func `descriptors of a killed sender come with their messages`() throws {
        let port = try MachPort(nameServer: sandbox.names)
        try sandbox.names.register(port, name: "kept")
        let child = Child("send-descriptors", "kept", "100", in: sandbox)
        #expect(child.wait() == -SIGKILL)
        // Longer than sockets of the dead are kept when no message waits.
        usleep(1_500_000)
        for id in 0..<100 as Range<UInt32> {
            let message = try port.receive(before: .patience)
            #expect(message.id == 100 + id)
            let number = message.withBytes { $0.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) } }
            #expect(message.inodes == [number], "\(message)")
        }
        #expect(waitUntil { port.receiver.intake.descriptorPeers.isEmpty })
    }

    @Test func `senders that are killed leave no descriptor behind`() throws {
        let target = try Target(sandbox)
        let before = try target.seen()
        let count = Scale.count(10, long: 300)
        for number in 0..<count {
            let senders = (0..<2).map { _ in Child("send-descriptors", "target", in: sandbox) }
            let handled = try target.seen().handled
            #expect(try waitUntil { try target.seen().handled > handled + 50 })
            usleep(UInt32(number * 7919 % 3000))
            for sender in senders { sender.kill() }
        }
        #expect(try waitUntil { try target.seen().descriptors <= before.descriptors })
        let after = try target.seen()
        Scale.show(
            "\(after.handled) messages with descriptors of \(2 * count) killed senders: "
                + "\(before.descriptors) descriptors before, \(after.descriptors) after")
    }

    @Test func `a killed receiver closes what was on its way to it`() throws {
        let desk = try Desk(sandbox)
        for number in 0..<Scale.count(5, long: 100) {
            let child = Child("take-descriptors", in: sandbox)
            let right = try desk.report()
            let pipes = Shared<[SentPipe]>([])
            let sender = Helper {
                while right.isValid {
                    let pipe = SentPipe()
                    pipes.withLock { $0.append(pipe) }
                    try? right.send(MachPort.Message([.descriptor(pipe.descriptor)]), before: .patience)
                }
            }
            usleep(UInt32(50_000 + number * 7919 % 10_000))
            child.kill()
            #expect(sender.value(before: .patience) != nil)
            let all = pipes.withLock { $0 }
            // The last one may still be the sender's.
            #expect(all.allSatisfy { pipe in (try? pipe.descriptor.take()).map { close($0) == 0 } ?? true })
            #expect(all.allSatisfy { $0.closes })
        }
    }

    @Test func `messages come in order to a process without descriptors`() throws {
        let desk = try Desk(sandbox)
        let child = Child("take-few-descriptors", in: sandbox)
        let right = try desk.report()
        for id in 0..<300 as Range<UInt32> {
            let pipe = SentPipe()
            let bytes = withUnsafeBytes(of: pipe.inode) { Array($0) }
            try right.send(
                MachPort.Message(id: 100 + id, [.bytes(bytes), .descriptor(pipe.descriptor)]), before: .patience)
        }
        #expect(child.wait() == 0)
    }

    // MARK: Ways

    @Test func `a peer's former way stays while descriptors wait on it`() throws {
        let peer = Incarnation.random()
        var intake = DescriptorIntake()
        /// Adds a way, and sends the descriptor of a message on it.
        func addWay(_ number: UInt64, _ pipe: SentPipe) throws {
            let (own, other) = try #require(DescriptorSocket.make())
            _ = intake.add(own, number, of: peer)
            #expect(DescriptorSocket(other).send(1, [try pipe.descriptor.number]) == 0)
        }
        func isFound(_ way: UInt64) throws -> Bool {
            let token = Wire.DescriptorToken(socket: way, packet: 1)
            let bytes = Samples.frame(descriptors: 1, socket: way, packet: 1)
            var frame = try ZeroMQFrame(count: bytes.count)
            frame.withUnsafeMutableBytes { $0.copyBytes(from: bytes) }
            intake.find(for: frame)
            return (try? intake.take(token)?.result.get())?.count == 1
        }
        try addWay(1, SentPipe())
        try addWay(2, SentPipe())
        #expect(try isFound(1))
        #expect(try isFound(2))
        // A peer that leaves descriptors on many ways has a bounded number of them.
        for number in 3...20 as ClosedRange<UInt64> { try addWay(number, SentPipe()) }
        #expect(try (3...20).filter { try isFound($0) } == Array(12...20))
    }

    /// Its messages by ZeroMQ may come later.
    @Test func `the way of a live peer stays, though it has no connection for long`() throws {
        let (port, right) = try port(.zeroMQ)
        func send() throws -> MachPort.Message {
            try right.send(MachPort.Message([.descriptor(SentPipe().descriptor)]), before: .patience)
            return try port.receive(before: .patience)
        }
        #expect(try send().inodes != [0])
        let peer = try right.channel.retainedRuntime()
        let (hasBegun, goOn, looked) = (Latch(), Latch(), Latch())
        try peer.housekeeping.perform {
            hasBegun.open()
            _ = goOn.wait(until: .patience)
        }
        #expect(hasBegun.wait(until: .patience))
        try #require(port.runtime.control.existing(peer.incarnation)).cut()
        // The port looks twice, a second apart.
        port.runtime.housekeeping.perform(after: .seconds(4)) { looked.open() }
        #expect(looked.wait(until: .patience))
        #expect(!port.runtime.control.isConnected(to: peer.incarnation))
        #expect(port.receiver.intake.descriptorPeers == [peer.incarnation])
        goOn.open()
        #expect(try send().inodes != [0])
    }

    // MARK: Hostile peers

    /// Speaks to a process as no process of this library does.
    private final class Hostile {
        let socket: ControlSocket
        private let target: Target

        init(_ target: Target) throws {
            self.target = target
            let descriptor = try LocalSocket.makeControl()
            socket = ControlSocket(descriptor)
            #expect(waitUntil { LocalSocket.connect(descriptor, to: target.controlPath) == 0 })
            #expect(socket.send(ControlHello(incarnation: .random())))
            #expect(waitUntil { socket.receiveHello() != nil })
        }

        /// Asks for a way for descriptors.
        func way(_ question: UInt64) -> DescriptorSocket? {
            guard waitUntil({ socket.send(.wantsDescriptorSocket(target.right.id.number, question: question)) }) else {
                return nil
            }
            var found: DescriptorSocket?
            waitUntil {
                withUnsafeTemporaryAllocation(byteCount: ControlMessage.largestSize, alignment: 8) { buffer in
                    var descriptors: [OwnedDescriptor] = []
                    guard let packet = socket.receive(into: buffer, &descriptors) else { return false }
                    guard ControlMessage(packet) == .descriptorSocket(target.right.id.number, question: question) else {
                        return false
                    }
                    found = descriptors.first.map(DescriptorSocket.init)
                    return true
                }
            }
            return found
        }

        /// Sends messages by ZeroMQ, past the library.
        func send(_ frames: [[UInt8]]) throws {
            let stream = try RawStream(to: target.path, saying: [])
            for frame in frames { stream.say(RawStream.announced(UInt64(frame.count)) + frame) }
            #expect(waitUntil { !LocalSocket.hasUnread(stream.descriptor) })
        }
    }

    @Test func `forged, missing and surplus descriptors do no harm`() throws {
        let target = try Target(sandbox)
        let hostile = try Hostile(target)
        let before = try target.seen()
        let way = try #require(hostile.way(77))
        let pipes = (0..<50).map { _ in SentPipe() }
        let numbers = try pipes.map { try $0.descriptor.number }
        // Surplus packets, one with fewer and one with more descriptors than its message, and one that is late.
        for number in 1...40 as ClosedRange<UInt64> { #expect(way.send(number, [numbers[Int(number)]]) == 0) }
        #expect(way.send(41, [numbers[41], numbers[42]]) == 0)
        #expect(way.send(42, []) == 0)
        #expect(way.send(50, [numbers[43]]) == 0)
        let frames = [(77, 41), (77, 42), (77, 41), (77, 43), (77, 50), (78, 1), (0, 0)].map { socket, packet in
            Samples.frame(descriptors: 1, socket: UInt64(socket), packet: UInt64(packet))
        }
        // A message that announces descriptors and has none, and a message with too many.
        var without = Samples.frame()
        without[2] |= Wire.descriptorsBit
        try hostile.send(frames + [without, Samples.frame(descriptors: 65)])
        #expect(try waitUntil { try target.seen().handled == before.handled + frames.count })
        #expect(try waitUntil { try target.seen().malformed == before.malformed + 2 })
        for pipe in pipes { close(try pipe.descriptor.take()) }
        #expect(pipes.allSatisfy { $0.closes })
        // Questions without end, and packets that no message follows.
        for question in 0..<500 as Range<UInt64> {
            let way = try #require(hostile.way(question))
            while way.send(1, [0, 0, 0]) == 0 {}
        }
        let during = try target.seen()
        // The last way, and the former ones that the port keeps.
        #expect(during.descriptors <= before.descriptors + 11)
        hostile.socket.cut()
        #expect(try waitUntil { try target.seen().descriptors <= before.descriptors })
        // Good senders are served.
        let others = (0..<10).map { _ in SentPipe() }
        for pipe in others {
            try target.right.send(MachPort.Message(id: 9, [.descriptor(pipe.descriptor)]), before: .patience)
        }
        #expect(others.allSatisfy { $0.closes })
        #expect(try waitUntil { try target.seen().handled == before.handled + frames.count + 10 })
    }
}
