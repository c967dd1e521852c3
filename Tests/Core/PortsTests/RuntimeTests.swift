import CRunLoopShims
import Dispatch
import Glibc
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Two runtimes in one process talk to each other as two processes do.
@Suite(.ownThread) struct RuntimeTests {
    let sandbox = Sandbox()

    private func runtime(_ sharedMemory: PortRuntime.SharedMemoryUse = .whenPossible) -> PortRuntime {
        PortRuntime(directory: sandbox.path, sharedMemory: sharedMemory)
    }

    /// A port of a runtime, registered as "test".
    private func registered(_ runtime: PortRuntime) throws -> MachPort {
        let port = try MachPort(nameServer: runtime.nameServer)
        try runtime.nameServer.register(port, name: "test")
        return port
    }

    @Test func `ports of two runtimes find each other by name, and messages arrive in order`() throws {
        let (one, other) = (runtime(), runtime())
        let port = try registered(one)
        let right = try other.nameServer.port(forName: "test", before: .patience)
        #expect(right == port.sendRight)
        #expect(right.channel !== port.sendRight.channel)
        for number in 0..<1000 as Range<UInt32> { try right.send(MachPort.Message(id: number), before: .patience) }
        for number in 0..<1000 as Range<UInt32> {
            let message = try port.receive(before: .patience)
            #expect(message.id == number)
            #expect(message.sender?.pid == getpid())
        }
        #expect(one.control.isConnected(to: other.incarnation))
        #expect(other.control.isConnected(to: one.incarnation))
    }

    @Test func `a name's port that an ending process cannot reach is not called missing`() throws {
        let (owner, ending) = (runtime(), runtime())
        let port = try registered(owner)
        let server = ending.nameServer
        _ = try server.port(forName: "test", before: .patience)
        ending.close()
        #expect(errorKind { _ = try server.port(forName: "test", before: .patience) } == "unavailable")
        #expect(try sandbox.names.registrations().map(\.name) == ["test"])
        withExtendedLifetime(port) {}
    }

    @Test func `the library's thread sleeps while a task waits for a port that moves`() async throws {
        let (owner, sender) = (runtime(), runtime())
        let port = try registered(owner)
        let right = try await sender.nameServer.port(forName: "test", before: .patience)
        // The owner has said that the port moves, and has not answered a question for a way for descriptors.
        right.channel.state.withLock { state in
            _ = (state.queue.waitForMove(), state.descriptors.ask())
        }
        let passes = Shared(0)
        let observer = ThreadRunLoop.Observer(.beforeTimers) { _, _ in passes.withLock { $0 += 1 } }
        try sender.housekeeping.loop().add(observer)
        await #expect(throws: PortError.self) {
            try await right.send(MachPort.Message(id: 1), before: .now + .milliseconds(50))
        }
        #expect(passes.withLock { $0 } < 100)
        withExtendedLifetime(port) {}
    }

    /// A look takes only one frame, and each further sender makes the descriptor readable again.
    @Test(arguments: [false, true])
    func `whoever serves a port without a handler sleeps, however much comes from elsewhere`(isQueue: Bool) throws {
        let (owner, others) = (runtime(), (0..<3).map { _ in runtime() })
        let port = try registered(owner)
        let thread = isQueue ? nil : try served(port)
        if isQueue { try port.setQueue(DispatchQueue(label: "test")) }
        let rights = try others.map { try $0.nameServer.port(forName: "test", before: .patience) }
        let descriptor = port.receiver.takers.socketDescriptor ?? -1
        for number in rights.indices {
            try rights[number].send(MachPort.Message(id: UInt32(number)), before: .patience)
            // Seen or not, the frame has come by then.
            _ = crl_poll(descriptor, -1, 100_000_000)
            #expect(waitUntil { crl_poll(descriptor, -1, 0) == 0 })
        }
        let ids = Shared<[UInt32]>([])
        port.setHandler { message in ids.withLock { $0.append(message.id) } }
        // Messages of different senders have no order.
        #expect(waitUntil { ids.withLock { $0.sorted() } == [0, 1, 2] })
        thread?.stop()
    }

    /// libzmq takes note of what has come when it binds a socket. Its messages to itself then keep the descriptor
    /// readable.
    @Test(arguments: [false, true])
    func `a message is handled although the port is exposed before anybody has looked`(isQueue: Bool) throws {
        let runtime = runtime()
        let port = try MachPort(nameServer: runtime.nameServer)
        let (busy, release, handled) = (Latch(), Latch(), Latch())
        port.setHandler { _ in handled.open() }
        // The thread that watches the descriptor.
        let thread = isQueue ? nil : try served(port)
        let loop = try thread?.loop ?? runtime.housekeeping.loop()
        let queue = DispatchQueue(label: "test")
        if isQueue { try port.setQueue(queue) }
        #expect(waitUntil { loop.isWaiting })
        try loop.perform {
            busy.open()
            _ = release.wait(until: .patience)
        }
        #expect(busy.wait(until: .patience))
        queue.sync {}
        try port.sendRight.send(MachPort.Message())
        _ = try port.receiver.expose()
        release.open()
        #expect(handled.wait(until: .patience))
        thread?.stop()
    }

    @Test func `a right that travels to another runtime leads back to its port`() throws {
        let (one, other) = (runtime(), runtime())
        let port = try registered(one)
        let answers = try MachPort(nameServer: other.nameServer)
        try other.nameServer.port(forName: "test", before: .patience)
            .send(MachPort.Message([.port(answers.sendRight)], replyPort: answers.sendRight), before: .patience)
        let message = try port.receive(before: .patience)
        #expect(message.components == [.port(answers.sendRight)])
        try #require(message.replyPort).send(MachPort.Message(id: 7), before: .patience)
        #expect(try answers.receive(before: .patience).id == 7)
    }

    /// How a sender tries until it learns that its connection is lost.
    enum Patience: CaseIterable {
        case none
        case some
        case endless
        case endlessTask
    }

    @Test(arguments: Patience.allCases)
    func `a sender is told that libzmq has lost its connection, and connects again`(patience: Patience) async throws {
        let (one, other) = (runtime(.never), runtime())
        let port = try MachPort(queueLimit: 10, nameServer: one.nameServer)
        try one.nameServer.register(port, name: "test")
        let right = try await other.nameServer.port(forName: "test", before: .patience)
        try await right.send(MachPort.Message(id: 1), before: .patience)
        #expect(try await port.receive(before: .patience).id == 1)
        for connection in LocalSocket.connections(to: [try #require(right.channel.usedPath)]) {
            shutdown(connection.original, Int32(SHUT_RDWR))
        }
        // Until libzmq knows of the end, it takes messages that are lost.
        var error: PortError?
        let deadline = ContinuousClock.Instant.patience
        while error == nil || error == .sendTimedOut(port: port.identity), !deadline.hasPassed {
            do {
                let limit: ContinuousClock.Instant =
                    switch patience {
                    case .none: .distantPast
                    case .some: .now + .milliseconds(50)
                    case .endless, .endlessTask: .distantFuture
                    }
                if patience == .endlessTask {
                    try await right.send(MachPort.Message(id: 2), before: limit)
                } else {
                    try onThread { Result { try right.send(MachPort.Message(id: 2), before: limit) } }.get()
                }
            } catch let caught as PortError {
                error = caught
            }
        }
        #expect(error == .connectionLost(port: port.identity))
        try await right.send(MachPort.Message(id: 3), before: .patience)
        #expect(try await port.receive(before: .patience).id == 3)
        withExtendedLifetime((one, other)) {}
    }

    @Test func `an idle connection that is lost is closed`() throws {
        let (one, other) = (runtime(.never), runtime())
        let port = try registered(one)
        let right = try other.nameServer.port(forName: "test", before: .patience)
        for id in 1...2 as ClosedRange<UInt32> {
            try right.send(MachPort.Message(id: id), before: .patience)
            #expect(try port.receive(before: .patience).id == id)
            guard id == 1 else { break }
            for connection in LocalSocket.connections(to: [try #require(right.channel.usedPath)]) {
                shutdown(connection.original, Int32(SHUT_RDWR))
            }
            #expect(
                waitUntil(before: .now + .seconds(10)) {
                    SendChannel.closeLost([right.channel].filter { $0.closeIfIdle() })
                    return !right.channel.isOpen
                })
        }
    }

    /// The news of an end may wait behind the search for lost connections.
    @Test func `the connection to a port that is ending is not lost`() throws {
        let (one, other) = (runtime(.never), runtime())
        let port = try registered(one)
        let right = try other.nameServer.port(forName: "test", before: .patience)
        try right.send(MachPort.Message(), before: .patience)
        let path = try #require(right.channel.usedPath)
        for connection in LocalSocket.connections(to: [path]) { shutdown(connection.original, Int32(SHUT_RDWR)) }
        #expect(waitUntil { LocalSocket.connections(to: [path]).isEmpty })
        // As the end of a port leaves it for a moment.
        #expect(rename(path, path + "x") == 0)
        #expect(!right.channel.dropLostConnection())
        #expect(right.channel.noteMissed() != nil)
        #expect(rename(path + "x", path) == 0)
        #expect(right.channel.dropLostConnection())
        #expect(right.channel.noteMissed() == nil)
        port.invalidate()
    }

    @Test func `one look at the descriptors serves all that miss their connections`() throws {
        let (one, other) = (runtime(.never), runtime())
        let port = try registered(one)
        let right = try other.nameServer.port(forName: "test", before: .patience)
        try right.send(MachPort.Message(), before: .patience)
        let (path, sockets) = (try #require(right.channel.usedPath), ConnectedSockets())
        let start = MonotonicInstant.now
        guard case .connected(let found) = sockets.connection(to: path, since: start) else {
            Issue.record("not connected")
            return
        }
        #expect(found.isOpen)
        // Seen by the same look, also later.
        guard case .notConnected = sockets.connection(to: path + "0", since: start) else {
            Issue.record("connected")
            return
        }
        // A look that began before a socket was connected says nothing of that, and there is a next one.
        var unknown = 0
        let isSeen = waitUntil {
            let since = MonotonicInstant.now
            for _ in 0..<50 {
                switch sockets.connection(to: path, since: since) {
                case .connected: return unknown > 0
                case .unknown: unknown += 1
                case .notConnected: Issue.record("not connected")
                }
            }
            return false
        }
        #expect(isSeen)
        port.invalidate()
        #expect(waitUntil { !found.isOpen })
        #expect(
            waitUntil { if case .notConnected = sockets.connection(to: path, since: start) { true } else { false } })
    }

    @Test func `all that wait for room are told that the connection is lost`() throws {
        let (one, other) = (runtime(.never), runtime())
        let port = try MachPort(queueLimit: 5, nameServer: one.nameServer)
        try one.nameServer.register(port, name: "test")
        let right = try other.nameServer.port(forName: "test", before: .patience)
        while errorKind({ try right.send(MachPort.Message(), before: .now + .milliseconds(100)) }) == "none" {}
        // Until libzmq knows of the end, it takes messages that are lost.
        let threads = (0..<3).map { _ in Helper { errorKind { while true { try right.send(MachPort.Message()) } } } }
        let tasks = Helper {
            let kinds = Shared<[String]>([])
            for _ in 0..<3 {
                Task {
                    do {
                        while true { try await right.send(MachPort.Message()) }
                    } catch {
                        kinds.withLock { $0.append(kind(error as? PortError)) }
                    }
                }
            }
            #expect(waitUntil { kinds.withLock { $0.count } == 3 })
            return kinds.withLock { $0 }
        }
        #expect(waitUntil { right.channel.waiterCount == 6 })
        // A sender that often tries another full port keeps nobody from looking.
        let full = try MachPort(queueLimit: 1, nameServer: one.nameServer)
        try one.nameServer.register(full, name: "full")
        let rightToFull = try other.nameServer.port(forName: "full", before: .patience)
        let isOver = Shared(false)
        let poller = Helper {
            while !isOver.withLock({ $0 }) { try? rightToFull.send(MachPort.Message(), before: .distantPast) }
        }
        for connection in LocalSocket.connections(to: [try #require(right.channel.usedPath)]) {
            shutdown(connection.original, Int32(SHUT_RDWR))
        }
        for thread in threads { #expect(thread.value() == "connectionLost") }
        #expect(tasks.value() == ["connectionLost", "connectionLost", "connectionLost"])
        isOver.withLock { $0 = true }
        poller.join()
        withExtendedLifetime((one, other, port)) {}
    }

    @Test func `a sender that waits is told so also while others try a full port again and again`() throws {
        let (one, other) = (runtime(.never), runtime())
        let ports = try ["full", "test"].map { name in
            let port = try MachPort(queueLimit: 1, nameServer: one.nameServer)
            try one.nameServer.register(port, name: name)
            return port
        }
        let full = try other.nameServer.port(forName: "full", before: .patience)
        let right = try other.nameServer.port(forName: "test", before: .patience)
        for right in [full, right] { try right.send(MachPort.Message(id: 1), before: .patience) }
        let thread = try RunLoopThread()
        try thread.loop.add(
            ThreadRunLoop.Timer(after: .milliseconds(1), repeats: true) { _ in
                try? full.send(MachPort.Message(id: 1), before: .distantPast)
            })
        for connection in LocalSocket.connections(to: [try #require(right.channel.usedPath)]) {
            shutdown(connection.original, Int32(SHUT_RDWR))
        }
        let sender = Helper { portError { while true { try right.send(MachPort.Message(id: 2)) } } }
        #expect(sender.value() == .connectionLost(port: right.identity))
        withExtendedLifetime((one, other, ports, thread)) {}
    }

    @Test func `a request to another runtime is answered, and one that is dropped is refused`() throws {
        let (one, other) = (runtime(), runtime())
        let server = try LocalMessagePort(name: "server", nameServer: one.nameServer) { (request: MessagePortRequest) in
            if request.id == 1 { try? request.replyRight?.reply(with: request.data) }
        }
        let thread = try RunLoopThread()
        try server.schedule(in: thread.loop)
        let remote = try RemoteMessagePort(name: "server", nameServer: other.nameServer, before: .patience)
        #expect(try remote.request(id: 1, [1, 2]) == [1, 2])
        #expect(errorKind { _ = try remote.request(id: 2) } == "unanswered")
        server.invalidate()
        #expect(waitUntil { !remote.isValid })
        thread.stop()
    }

    @Test func `the end of a runtime is the death of its ports for others`() throws {
        var one: PortRuntime? = runtime()
        let other = runtime()
        var port: MachPort? = try registered(try #require(one))
        let (right, told) = (try other.nameServer.port(forName: "test", before: .patience), Latch())
        right.onInvalidation { told.open() }
        (port, one) = (nil, nil)
        #expect(told.wait(until: .patience))
        #expect(!right.isValid)
        #expect(errorKind { _ = try other.nameServer.port(forName: "test") } == "nameNotFound")
        withExtendedLifetime(port) {}
        #expect(one == nil)
    }

    @Test func `a runtime keeps nothing when it is released`() throws {
        weak var released: PortRuntime?
        weak var channels: ChannelTable?
        weak var registry: Registry?
        weak var control: ControlConnectionTable?
        func use() throws {
            let (one, other) = (runtime(), runtime())
            let port = try registered(one)
            try other.nameServer.port(forName: "test", before: .patience).send(MachPort.Message(), before: .patience)
            _ = try port.receive(before: .patience)
            (released, channels, registry, control) = (other, other.channels, other.registry, other.control)
        }
        try use()
        #expect(waitUntil { released == nil && channels == nil && registry == nil && control == nil })
        #expect(waitUntil { sandbox.files.isEmpty })
    }

    @Test func `runtimes that are released keep no descriptors`() throws {
        // Nobody is connected to it.
        let stopped = Child("hold", "stopped", in: sandbox)
        #expect(waitUntil { (try? sandbox.names.names().contains("stopped")) == true })
        stopped.stop()
        #expect(Child("release", in: sandbox).wait() == 0)
    }

    @Test func `a runtime that is released during a request lives until the reply`() throws {
        let one = runtime()
        let asked = Shared<ReplyRight?>(nil)
        let server = try LocalMessagePort(name: "server", nameServer: one.nameServer) { (request: MessagePortRequest) in
            asked.withLock { $0 = request.replyRight }
        }
        let thread = try RunLoopThread()
        try server.schedule(in: thread.loop)
        func ask() throws -> Helper<[UInt8]?> {
            let runtime = runtime()
            defer { withExtendedLifetime(runtime) {} }
            let remote = try RemoteMessagePort(name: "server", nameServer: runtime.nameServer, before: .patience)
            let asker = Helper { try? remote.request(id: 1, timeout: .seconds(20)) }
            #expect(waitUntil { asked.withLock { $0 != nil } })
            return asker
        }
        let asker = try ask()
        try asked.withLock { $0.take() }?.reply(with: [7])
        #expect(asker.value() == [7])
        thread.stop()
    }

    @Test func `a port ends soon although senders of another runtime go on`() throws {
        let (one, other) = (runtime(), runtime())
        let port = try registered(one)
        let right = try other.nameServer.port(forName: "test", before: .patience)
        let answers = try MachPort(nameServer: other.nameServer)
        let channel = right.channel
        let senders = (0..<3).map { _ in
            Helper { () -> Int in
                for count in 0... {
                    // Each costs the port more to refuse than the sender to send.
                    let request = MachPort.Message(replyPort: answers.sendRight)
                    guard
                        var message = try? MessageEncoding.outgoing(
                            request, kind: .request, request: .max, to: channel),
                        (try? channel.send(&message, before: .patience)) != nil
                    else { return count }
                }
                return 0
            }
        }
        #expect(waitUntil { channel.waiterCount == senders.count })
        let began = ContinuousClock.now
        port.invalidate()
        // Without a bound on refusing, senders hold the port up for as long as they are faster.
        let took = began.duration(to: .now)
        if Scale.isMeasured { #expect(took < .seconds(1)) }
        #expect(senders.allSatisfy { $0.value() != nil })
        #expect(!right.isValid)
    }

    @Test func `handshakes with processes that do not answer are few, and end when nobody wants them`() throws {
        let runtime = runtime()
        let listener = try LocalSocket.listen(at: sandbox.file("quiet"), kind: .sequencedPackets)
        defer { close(listener) }
        func rights(_ count: Int) -> [MachPort.SendRight] {
            (0..<count).map { _ in
                let incarnation = Incarnation.random()
                mkdir(sandbox.file("\(incarnation)"), 0o700)
                symlink(sandbox.file("quiet"), sandbox.file("\(incarnation)/c"))
                let id = PortID(incarnation: incarnation, number: 1)
                return MachPort.SendRight(
                    runtime.channels.channel(to: WireRight(id: id, queueLimit: 1, limit: 1, path: sandbox.path)))
            }
        }
        var kept = rights(300)
        for right in kept { right.onInvalidation {} }
        #expect(waitUntil { runtime.control.handshakeCount == ControlConnectionTable.mostHandshakes })
        let one = kept.removeFirst()
        kept = []
        #expect(waitUntil { runtime.control.handshakeCount == 1 })
        #expect(one.isValid)
    }
}
