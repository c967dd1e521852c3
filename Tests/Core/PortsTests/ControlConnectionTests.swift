import CRunLoopShims
import Glibc
import OwnThread
import PortsInspection
import RunLoops
import TestSupport
import Testing

@testable import FuzzTargets
@testable import Ports

/// Strangers at a control socket.
@Suite(.ownThread) struct ControlConnectionTests {
    let sandbox = Sandbox()

    /// A socket that speaks the control protocol by hand.
    private final class Raw: Sendable {
        let descriptor: Int32

        init(_ descriptor: Int32) { self.descriptor = descriptor }

        init(callingAt path: String) throws {
            descriptor = try LocalSocket.make(.sequencedPackets)
            let error = LocalSocket.connect(descriptor, to: path)
            #expect(error == 0)
        }

        deinit {
            // A child of another test, which has not come to its program yet, may have the descriptor, too.
            shutdown(descriptor, Int32(SHUT_RDWR))
            close(descriptor)
        }

        func send(_ bytes: [UInt8]) { _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) }

        static func isReadable(_ descriptor: Int32, before deadline: MonotonicInstant) -> Bool {
            crl_poll(descriptor, -1, deadline.timeout) > 0
        }

        func isReadable(before deadline: MonotonicInstant) -> Bool { Self.isReadable(descriptor, before: deadline) }

        /// The next packet; empty at the end of the connection, nil when none came in time.
        func receive() -> [UInt8]? {
            guard crl_poll(descriptor, -1, MonotonicInstant.patience.timeout) > 0 else { return nil }
            var bytes = [UInt8](repeating: 0, count: 256)
            let count = recv(descriptor, &bytes, bytes.count, 0)
            return Array(bytes.prefix(max(count, 0)))
        }
    }

    /// A port that is known outside, and the path of its process's control socket.
    private func exposed() throws -> (MachPort, String) {
        let port = try MachPort(nameServer: sandbox.names)
        try sandbox.names.register(port, name: "test")
        return (port, sandbox.file("\(PortRuntime.shared.incarnation)/c"))
    }

    private func expectGoodPeersAreServed(_ port: MachPort) throws {
        let child = Child("send", "1", in: sandbox)
        #expect(try port.receive(before: .patience).id == 0)
        #expect(child.wait() == 0)
    }

    @Test(arguments: [[1], [0], Array(repeating: 0xFF, count: 24), Array(repeating: 0x53, count: 4000)] as [[UInt8]])
    func `whoever says no hello is refused, and good peers are served`(_ garbage: [UInt8]) throws {
        let (port, path) = try exposed()
        let silent = try Raw(callingAt: path)
        let stranger = try Raw(callingAt: path)
        stranger.send(garbage)
        #expect(stranger.receive() == [])
        try expectGoodPeersAreServed(port)
        withExtendedLifetime(silent) {}
    }

    /// Senders of version 1 erase the end of a ring, which a lender needs.
    @Test(arguments: [1, 9] as [UInt8])
    func `whoever speaks another version learns ours, and is refused`(_ version: UInt8) throws {
        let (port, path) = try exposed()
        let stranger = try Raw(callingAt: path)
        stranger.send(Samples.hello(.random(), version: version))
        let answer = try #require(stranger.receive())
        #expect(
            answer.withUnsafeBytes { ControlHello($0) } == ControlHello(incarnation: PortRuntime.shared.incarnation))
        #expect(stranger.receive() == [])
        try expectGoodPeersAreServed(port)
    }

    @Test(arguments: [[], [9], Array(repeating: 7, count: 9), Array(repeating: 1, count: 64)] as [[UInt8]])
    func `a peer that sends garbage after its hello is cut off`(_ garbage: [UInt8]) throws {
        let (port, path) = try exposed()
        let peer = try Raw(callingAt: path)
        peer.send(Samples.hello(.random()))
        #expect(peer.receive()?.count == ControlHello.size)
        peer.send(garbage)
        #expect(peer.receive() == [])
        try expectGoodPeersAreServed(port)
    }

    @Test func `a peer is told of a port's end, and of one that never was`() throws {
        let (port, path) = try exposed()
        let peer = try Raw(callingAt: path)
        peer.send(Samples.hello(.random()))
        #expect(peer.receive()?.count == ControlHello.size)
        peer.send(Samples.packet(.watch(port.id.number)))
        peer.send(Samples.packet(.watch(.max)))
        #expect(peer.receive() == Samples.packet(.named(port.id.number, "test")))
        #expect(peer.receive() == Samples.packet(.invalidated(.max)))
        port.invalidate()
        #expect(peer.receive() == Samples.packet(.invalidated(port.id.number)))
    }

    @Test func `who has our hello can be told at once that a request has no answer`() throws {
        let (port, path) = try exposed()
        for request in 1...(300 as UInt64) {
            let peer = try Raw(callingAt: path)
            let incarnation = Incarnation.random()
            peer.send(Samples.hello(incarnation))
            #expect(peer.receive()?.count == ControlHello.size)
            PortRuntime.shared.control.send(.unanswered(request), to: incarnation)
            PortRuntime.shared.control.send(.unanswered(0), to: incarnation)
            try #require(peer.isReadable(before: .patience), "request \(request)")
            #expect(peer.receive() == Samples.packet(.unanswered(request)))
        }
        withExtendedLifetime(port) {}
    }

    @Test(arguments: [true, false])
    func `the reason of a failed request is for peers that take reasons`(_ takesReasons: Bool) throws {
        let (port, path) = try exposed()
        let (peer, incarnation) = (try Raw(callingAt: path), Incarnation.random())
        var hello = ControlHello(incarnation: incarnation)
        hello.takesReasons = takesReasons
        peer.send(Samples.bytes(of: hello))
        #expect(peer.receive()?.count == ControlHello.size)
        PortRuntime.shared.control.send(.failed(1, reason: "it crashed"), to: incarnation)
        #expect(peer.receive() == Samples.packet(takesReasons ? .failed(1, reason: "it crashed") : .unanswered(1)))
        withExtendedLifetime(port) {}
    }

    @Test func `a peer that was not connected is told on its next connection that a request has no answer`() throws {
        let (port, path) = try exposed()
        let (control, incarnation) = (PortRuntime.shared.control, Incarnation.random())
        func connected() throws -> Raw {
            let peer = try Raw(callingAt: path)
            peer.send(Samples.hello(incarnation))
            #expect(peer.receive()?.count == ControlHello.size)
            return peer
        }
        do { _ = try connected() }
        #expect(waitUntil { !control.isConnected(to: incarnation) })
        control.send(.unanswered(1), to: incarnation)
        // The end of a connection may not be known yet.
        let (isHeld, isOver) = (Latch(), Latch())
        do {
            let peer = try connected()
            #expect(peer.receive() == Samples.packet(.unanswered(1)))
            try PortRuntime.shared.housekeeping.perform {
                isHeld.open()
                _ = isOver.wait(until: .patience)
            }
            #expect(isHeld.wait(until: .patience))
        }
        control.send(.unanswered(2), to: incarnation)
        control.send(.unanswered(3), to: incarnation)
        isOver.open()
        #expect(waitUntil { !control.isConnected(to: incarnation) })
        let peer = try connected()
        #expect(peer.receive() == Samples.packet(.unanswered(2)))
        #expect(peer.receive() == Samples.packet(.unanswered(3)))
        withExtendedLifetime(port) {}
    }

    @Test func `a process that was stopped while a caller said hello lets the caller in`() throws {
        let target = try Target(sandbox)
        let older = try Raw(callingAt: target.controlPath)
        _ = try target.right.ping(before: .patience)
        #expect(!older.isReadable(before: .now + .seconds(1)))
        let caller = try Raw(callingAt: target.controlPath)
        // It has accepted the caller by then.
        _ = try target.right.ping(before: .patience)
        target.child.stop()
        // The time of the older one is over, and then the caller's.
        #expect(!caller.isReadable(before: .now + .milliseconds(4200)))
        caller.send(Samples.hello(.random()))
        #expect(!caller.isReadable(before: .now + .milliseconds(1500)))
        target.child.signal(SIGCONT)
        #expect(caller.receive()?.count == ControlHello.size)
        withExtendedLifetime(older) {}
    }

    @Test func `a connection can look at its peer's place very often`() throws {
        let target = try Target(sandbox)
        _ = try target.right.ping(before: .patience)
        let connection = try #require(PortRuntime.shared.control.existing(target.right.channel.id.incarnation))
        for _ in 0..<200_000 { connection.notePlace() }
        #expect(connection.former.hasPlace?() == true)
    }

    @Test func `a peer that sends without end leaves others their turn`() throws {
        var pair: [Int32] = [-1, -1]
        #expect(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0, &pair) == 0)
        let (ours, theirs) = (ControlConnection(pair[0], to: 0), Raw(pair[1]))
        for _ in 0..<100 { theirs.send(Samples.packet(.unanswered(0))) }
        #expect(ours.receive())
        #expect(Raw.isReadable(ours.socket.descriptor, before: .now))
        #expect(ours.receive())
        #expect(!Raw.isReadable(ours.socket.descriptor, before: .now))
    }

    @Test func `a peer that reads late is told all the same that a port has taken everything`() throws {
        var pair: [Int32] = [-1, -1]
        #expect(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue | SOCK_NONBLOCK.rawValue), 0, &pair) == 0)
        let (ours, theirs) = (ControlConnection(pair[0], to: getpid()), Raw(pair[1]))
        for number in 0..<1000 as Range<UInt64> { ours.send(.invalidated(number)) }
        ours.send(.drained(1, probe: 2))
        for number in 0..<1000 as Range<UInt64> { #expect(theirs.receive() == Samples.packet(.invalidated(number))) }
        #expect(theirs.receive() == Samples.packet(.drained(1, probe: 2)))
    }

    @Test(.enabled(if: Descriptor.limit >= 1000))
    func `a peer that reads late is told everything by a process that has no descriptor left`() throws {
        let target = try Target(sandbox, setUp: "ulimit -n 160")
        let peer = try peer(at: target.controlPath)
        try target.hoard(true)
        let handled = try target.seen().handled
        // It would get a packet for each, and does not read.
        let numbers = (1...2000 as ClosedRange<UInt64>).map { .max - $0 }
        for number in numbers {
            let packet = Samples.packet(.watch(number))
            try #require(
                waitUntil {
                    Glibc.send(peer.descriptor, packet, packet.count, Int32(MSG_NOSIGNAL)) == packet.count
                })
        }
        for number in numbers { try #require(peer.receive() == Samples.packet(.invalidated(number))) }
        #expect(try target.seen().handled == handled)
        try target.hoard(false)
    }

    @Test func `a peer that reads late is asked for the ends of any number of ports`() throws {
        var pair: [Int32] = [-1, -1]
        #expect(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue | SOCK_NONBLOCK.rawValue), 0, &pair) == 0)
        let (ours, theirs) = (ControlConnection(pair[0], to: getpid()), Raw(pair[1]))
        let numbers = 0..<(70_000 as UInt64)
        for number in numbers { ours.send(.watch(number)) }
        #expect(numbers.allSatisfy { theirs.receive() == Samples.packet(.watch($0)) })
    }

    @Test func `a peer that does not read is cut off in the end, but not for what may be left out`() throws {
        var pair: [Int32] = [-1, -1]
        #expect(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue | SOCK_NONBLOCK.rawValue), 0, &pair) == 0)
        let (ours, theirs) = (ControlConnection(pair[0], to: getpid()), Raw(pair[1]))
        // More than the socket holds.
        for number in 0..<2000 as Range<UInt64> { ours.send(.unanswered(number)) }
        for _ in 0..<70_000 { ours.send(.count(1)) }
        func isCutOff() -> Bool {
            var state = pollfd(fd: theirs.descriptor, events: 0, revents: 0)
            return poll(&state, 1, 0) == 1 && state.revents & Int16(POLLHUP) != 0
        }
        // The asker learns at some time that the peer does not read.
        let question = QuestionPacket(number: 1, answers: Samples.right, question: [])
        #expect((0..<1000).contains { _ in !ours.send(.question(question)) })
        #expect(!isCutOff())
        for number in 0..<70_000 as Range<UInt64> { ours.send(.unanswered(number)) }
        #expect(isCutOff())
    }

    @Test func `peers that do not read cost no more together than a bound`() throws {
        let peers = ControlConnectionTable(.random(), PortRuntime.shared.housekeeping)
        peers.events = PortRuntime.shared
        let all = try (0..<30).map { _ in
            var pair: [Int32] = [-1, -1]
            try #require(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue | SOCK_NONBLOCK.rawValue), 0, &pair) == 0)
            let hello = ControlHello(incarnation: .random(), origin: 1)
            return (ControlConnection(ControlSocket(pair[0]), hello, getpid(), peers), Raw(pair[1]))
        }
        for (ours, _) in all { for number in 0..<60_000 as Range<UInt64> { ours.send(.unanswered(number)) } }
        let cutOff = all.count { crl_has_hung_up($0.1.descriptor) }
        #expect((10...15).contains(cutOff))
        // Their room is free again.
        for (ours, _) in all { ours.closed() }
        #expect(peers.waitingPackets.load(ordering: .relaxed) == 0)
    }

    @Test func `a caller that cannot be greeted is cut off`() throws {
        let peers = ControlConnectionTable(.random(), PortRuntime.shared.housekeeping)
        peers.events = PortRuntime.shared
        var pair: [Int32] = [-1, -1]
        #expect(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue | SOCK_NONBLOCK.rawValue), 0, &pair) == 0)
        let peer = Raw(pair[1])
        while Glibc.send(pair[0], [1], 1, Int32(MSG_NOSIGNAL)) == 1 {}
        let incarnation = Incarnation.random()
        peer.send(Samples.hello(incarnation))
        peers.accept(ControlSocket(pair[0]))
        #expect(!peers.isConnected(to: incarnation))
        var packet = peer.receive()
        while packet?.isEmpty == false { packet = peer.receive() }
        #expect(packet == [])
    }

    @Test func `a peer that reads late learns of the end although a fork lives on`() throws {
        var pair: [Int32] = [-1, -1]
        #expect(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0, &pair) == 0)
        let unforked = crl_unforked_duplicate(pair[0])
        close(pair[0])
        let theirs = Raw(pair[1])
        var ours: ControlConnection? = ControlConnection(unforked, to: 0)
        #expect(fcntl(unforked, F_SETFL, O_NONBLOCK) == 0)
        for request in 0..<(2000 as UInt64) { ours?.send(.unanswered(request)) }
        let child = fork()
        if child == 0 {
            alarm(120)
            pause()
            _exit(0)
        }
        ours?.closed()
        ours = nil
        var packet = theirs.receive()
        while packet?.isEmpty == false { packet = theirs.receive() }
        #expect(packet == [])
        kill(child, SIGKILL)
        waitpid(child, nil, 0)
    }

    @Test func `nobody takes a live process's place`() throws {
        let (port, path) = try exposed()
        let child = Child("echo", in: sandbox)
        let right = try #require(try port.receive(before: .patience).replyPort)
        #expect(try RemoteMessagePort(right).request(id: 1, [1]) == [1])
        for incarnation in [right.id.incarnation, PortRuntime.shared.incarnation] {
            let impostor = try Raw(callingAt: path)
            impostor.send(Samples.hello(incarnation))
            impostor.send(Samples.packet(.invalidated(right.id.number)))
            #expect(impostor.receive() == [])
        }
        #expect(right.isValid)
        #expect(try RemoteMessagePort(right).request(id: 1, [2]) == [2])
        withExtendedLifetime(child) {}
    }

    /// A control socket of a process that does not exist, and a right to a port of it.
    private func stand(_ incarnation: Incarnation = .random()) throws -> (Raw, MachPort.SendRight) {
        #expect(mkdir(sandbox.file("\(incarnation)"), 0o700) == 0)
        let listener = Raw(try LocalSocket.listen(at: sandbox.file("\(incarnation)/c"), kind: .sequencedPackets))
        let right = WireRight(
            id: PortID(incarnation: incarnation, number: 1), queueLimit: 1, limit: 1000, path: sandbox.path)
        return (listener, MachPort.SendRight(PortRuntime.shared.channels.channel(to: right)))
    }

    /// Answers the next caller at the listener.
    private func answer(_ listener: Raw, _ bytes: [UInt8]?) -> Helper<Bool> {
        Helper {
            guard crl_poll(listener.descriptor, -1, MonotonicInstant.patience.timeout) > 0 else { return false }
            let caller = Raw(crl_unforked_accept(listener.descriptor))
            guard caller.receive()?.count == ControlHello.size else { return false }
            if let bytes { caller.send(bytes) }
            return true
        }
    }

    @Test func `a handler that the library's own thread sets is told of the port's end too`() throws {
        let (listener, first) = try stand()
        let incarnation = first.id.incarnation
        let owner = Helper { () -> Raw in
            let caller = Raw(crl_poll(listener.descriptor, -1, -1) > 0 ? crl_unforked_accept(listener.descriptor) : -1)
            #expect(caller.receive()?.count == ControlHello.size)
            caller.send(Samples.hello(incarnation))
            return caller
        }
        first.onInvalidation {}
        let connection = try #require(owner.value())
        #expect(connection.receive() == Samples.packet(.watch(1)))

        let second = MachPort.SendRight(
            PortRuntime.shared.channels.channel(
                to: WireRight(
                    id: PortID(incarnation: incarnation, number: 2), queueLimit: 1, limit: 1, path: sandbox.path)))
        let told = Latch()
        try PortRuntime.shared.housekeeping.loop().perform { second.onInvalidation { told.open() } }
        try #require(connection.isReadable(before: .patience))
        #expect(connection.receive() == Samples.packet(.watch(2)))
        connection.send(Samples.packet(.invalidated(2)))
        #expect(told.wait(until: .patience))
        #expect(first.isValid)
        #expect(!second.isValid)
    }

    @Test func `an owner that hangs up after each hello is called once a second`() throws {
        let (listener, right) = try stand()
        right.onInvalidation {}
        try #require(listener.isReadable(before: .patience))
        let began = MonotonicInstant.now
        var count = 0
        while listener.isReadable(before: began + .seconds(1)) {
            let caller = Raw(crl_unforked_accept(listener.descriptor))
            #expect(caller.receive()?.count == ControlHello.size)
            caller.send(Samples.hello(right.id.incarnation))
            count += 1
        }
        // The first is at once, and so is the one after a connection was cut.
        let most = 2 + Int(began.duration(to: .now) / .seconds(1))
        #expect((1...most).contains(count))
        #expect(right.isValid)
    }

    /// Takes the next call at the listener, and the caller's hello.
    private func caller(at listener: Raw) throws -> Raw {
        while true {
            try #require(listener.isReadable(before: .patience))
            let caller = Raw(crl_unforked_accept(listener.descriptor))
            // A caller that was refused looks whether anybody is there, and says nothing.
            if caller.receive()?.count == ControlHello.size { return caller }
        }
    }

    @Test func `an owner that refuses is called again until it does not`() throws {
        let (listener, right) = try stand()
        let told = Latch()
        right.onInvalidation { told.open() }
        for _ in 0..<2 { _ = try caller(at: listener) }
        #expect(right.isValid)
        let connection = try caller(at: listener)
        connection.send(Samples.hello(right.id.incarnation))
        #expect(connection.receive() == Samples.packet(.watch(1)))
        connection.send(Samples.packet(.invalidated(1)))
        #expect(told.wait(until: .patience))
        #expect(!right.isValid)
    }

    @Test func `an owner may be alive between two connections`() throws {
        let (listener, right) = try stand()
        let (control, incarnation) = (PortRuntime.shared.control, right.id.incarnation)
        #expect(!control.mayBeAlive(incarnation))
        right.onInvalidation {}
        var connection: Raw? = try caller(at: listener)
        connection?.send(Samples.hello(incarnation))
        #expect(connection?.receive() == Samples.packet(.watch(1)))
        #expect(control.mayBeAlive(incarnation))
        connection = nil
        // The next caller gets no answer.
        let next = try caller(at: listener)
        #expect(!control.isAlive(incarnation))
        #expect(control.mayBeAlive(incarnation))
        withExtendedLifetime((right, next)) {}
    }

    @Test func `of two connections the second is asked what the first was, when that ends`() throws {
        let (port, path) = try exposed()
        let (listener, right) = try stand()
        let incarnation = right.id.incarnation
        right.onInvalidation {}
        var first: Raw? = try caller(at: listener)
        first?.send(Samples.hello(incarnation))
        #expect(first?.receive() == Samples.packet(.watch(1)))
        let second = try Raw(callingAt: path)
        second.send(Samples.hello(incarnation))
        #expect(second.receive()?.count == ControlHello.size)
        #expect(second.receive() == Samples.packet(.watch(1)))
        let wire = WireRight(
            id: PortID(incarnation: incarnation, number: 2), queueLimit: 1, limit: 1000, path: sandbox.path)
        let other = MachPort.SendRight(PortRuntime.shared.channels.channel(to: wire))
        let told = Latch()
        other.onInvalidation { told.open() }
        #expect(first?.receive() == Samples.packet(.watch(2)))
        first = nil
        #expect(second.receive() == Samples.packet(.watch(2)))
        second.send(Samples.packet(.invalidated(2)))
        #expect(told.wait(until: .patience))
        #expect(right.isValid)
        #expect(!other.isValid)
        withExtendedLifetime(port) {}
    }

    /// Lets the library's own thread wait. It handles later what it gets meanwhile.
    private func whileHousekeepingWaits(_ body: () throws -> Void) throws {
        let (isThere, goesOn) = (Latch(), Latch())
        try PortRuntime.shared.housekeeping.loop().perform {
            isThere.open()
            _ = goesOn.wait(until: .patience)
        }
        #expect(isThere.wait(until: .patience))
        defer { goesOn.open() }
        try body()
    }

    @Test(.enabled(if: Descriptor.limit >= 2000))
    func `callers that have hung up take no room from those behind them`() throws {
        let (port, path) = try exposed()
        let silent = try (0..<ControlConnectionTable.mostCallers - 36).map { _ in try Raw(callingAt: path) }
        // They are let in before this one is.
        expectRead(try peer(at: path))
        var last: Raw?
        try whileHousekeepingWaits {
            for _ in 0..<50 { _ = try Raw(callingAt: path) }
            last = try Raw(callingAt: path)
            last?.send(Samples.hello(.random()))
        }
        #expect(last?.receive()?.count == ControlHello.size)
        withExtendedLifetime((port, silent)) {}
    }

    @Test func `who hangs up behind its hello is not called for it`() throws {
        let (port, path) = try exposed()
        let (listener, right) = try stand()
        for _ in 0..<10 {
            var caller: Raw? = try Raw(callingAt: path)
            // That one is let in before this one is.
            expectRead(try peer(at: path))
            try whileHousekeepingWaits {
                caller?.send(Samples.hello(right.id.incarnation))
                caller = nil
            }
            expectRead(try peer(at: path))
        }
        #expect(!listener.isReadable(before: .now))
        #expect(right.isValid)
        withExtendedLifetime(port) {}
    }

    @Test func `a handler of an owner's end that ends a busy port holds up no other peer`() throws {
        let (began, mayEnd, wasCalled, passed, told) = (Latch(), Latch(), Latch(), Latch(), Latch())
        let port = try MachPort { _ in
            began.open()
            _ = mayEnd.wait(until: .patience)
        }
        port.onInvalidation { told.open() }
        let thread = try served(port)
        try port.sendRight.send(MachPort.Message())
        #expect(began.wait(until: .patience))
        let right = rightToNobody()
        right.onInvalidation {
            wasCalled.open()
            port.invalidate()
        }
        #expect(wasCalled.wait(until: .patience))
        try PortRuntime.shared.housekeeping.loop().perform { passed.open() }
        // Before the busy handler goes on by itself.
        #expect(passed.wait(until: .now + .seconds(30)))
        #expect(!told.wait(until: .distantPast))
        mayEnd.open()
        #expect(told.wait(until: .patience))
        withExtendedLifetime((thread, right)) {}
    }

    @Test func `a handler on the library's own thread learns of an end that another thread has asked for`() throws {
        let right = rightToNobody()
        let (isThere, goesOn, ended, error) = (Latch(), Latch(), Latch(), Shared(""))
        try PortRuntime.shared.housekeeping.loop().perform {
            isThere.open()
            _ = goesOn.wait(until: .patience)
            let kind = errorKind { try right.send(MachPort.Message(), before: .now + .seconds(10)) }
            error.withLock { $0 = kind }
            ended.open()
        }
        #expect(isThere.wait(until: .patience))
        right.onInvalidation {}
        goesOn.open()
        #expect(ended.wait(until: .patience))
        #expect(error.withLock { $0 } == "isInvalid")
    }

    @Test(arguments: [1, 7] as [UInt8])
    func `an owner of another version is said to be`(_ version: UInt8) throws {
        let (listener, right) = try stand()
        let answered = answer(listener, Samples.hello(right.id.incarnation, version: version))
        let error = portError { try right.send(MachPort.Message(), before: .patience) }
        #expect(kind(error) == "incompatibleVersion")
        #expect(error?.description.contains("version \(version)") == true)
        #expect(answered.value() == true)
        #expect(right.isValid)
    }

    @Test func `an owner of another incarnation is not the owner`() throws {
        let (listener, right) = try stand()
        let answered = answer(listener, Samples.hello(.random()))
        #expect(errorKind { try right.send(MachPort.Message(), before: .patience) } == "isInvalid")
        #expect(answered.value() == true)
        #expect(!right.isValid)
    }

    @Test func `an owner that refuses is not one that is gone`() throws {
        let (listener, right) = try stand()
        let answered = answer(listener, nil)
        #expect(errorKind { try right.send(MachPort.Message(), before: .patience) } == "cannotConnect")
        #expect(answered.value() == true)
        #expect(right.isValid)
    }

    @Test func `a process that is gone from one directory is not gone from another`() {
        let (incarnation, other) = (Incarnation.random(), Sandbox())
        let rights = [sandbox.path, other.path].enumerated().map { index, path in
            MachPort.SendRight(
                PortRuntime.shared.channels.channel(
                    to: WireRight(
                        id: PortID(incarnation: incarnation, number: UInt64(index)), queueLimit: 1, limit: 1,
                        path: path)))
        }
        PortRuntime.shared.processDied(rights[0].channel.controlAddress)
        #expect(!rights[0].isValid)
        #expect(rights[1].isValid)
    }

    @Test func `an owner that does not answer is waited for until the deadline`() throws {
        let (listener, right) = try stand()
        let began = ContinuousClock.now
        #expect(errorKind { try right.send(MachPort.Message(), before: .distantPast) } == "cannotConnect")
        #expect(began.duration(to: .now) >= .seconds(1))
        #expect(right.isValid)
        withExtendedLifetime(listener) {}
    }

    /// A right to a port of a process that does not exist.
    private func rightToNobody() -> MachPort.SendRight {
        let right = WireRight(
            id: PortID(incarnation: .random(), number: 1), queueLimit: 1, limit: 1000, path: sandbox.path)
        return MachPort.SendRight(PortRuntime.shared.channels.channel(to: right))
    }

    @Test func `a right to nobody is invalid at once`() throws {
        let right = rightToNobody()
        let told = Latch()
        right.onInvalidation { told.open() }
        #expect(told.wait(until: .patience))
        #expect(!right.isValid)
        #expect(errorKind { try right.send(MachPort.Message()) } == "isInvalid")
    }

    // MARK: Credits

    /// Sends messages with an origin past the library.
    private func send(_ count: Int, from origin: UInt32, to port: MachPort) throws {
        let path = sandbox.file("\(port.id.incarnation)/\(port.id.number)")
        let frame = Samples.frame(components: [(Array(repeating: 1, count: 100), false)], origin: origin)
        let stream = try RawStream(to: path, saying: [])
        for _ in 0..<count {
            stream.say([0, UInt8(frame.count)] + frame)
            _ = try port.receive(before: .patience)
        }
    }

    @Test func `what was taken is told to its sender alone, and not to one that uses another's origin`() throws {
        let port = try MachPort(byteLimit: 400, nameServer: sandbox.names)
        try sandbox.names.register(port, name: "test")
        let path = sandbox.file("\(PortRuntime.shared.incarnation)/c")
        var peers: [(peer: Raw, origin: UInt32)] = []
        for _ in 0..<3 {
            let peer = try Raw(callingAt: path)
            peer.send(Samples.hello(.random()))
            let hello = try #require(peer.receive()?.withUnsafeBytes { ControlHello($0) })
            peers.append((peer, hello.origin))
        }
        #expect(Set(peers.map(\.origin)).count == 3)
        #expect(!peers.contains { $0.origin == 0 })
        for (peer, origin) in peers {
            try send(2, from: origin, to: port)
            for _ in 0..<2 { #expect(peer.receive() == Samples.packet(.credit(port.id.number, bytes: 120))) }
        }
        // Nobody is called so.
        for origin in [0, PortRuntime.shared.channels.mark] { try send(2, from: origin, to: port) }
        for (peer, _) in peers { #expect(!peer.isReadable(before: .now)) }
    }

    @Test func `two peers for whom the same origin is drawn have two, and each is told of its own`() throws {
        let peers = ControlConnectionTable(
            .random(), PortRuntime.shared.housekeeping, origins: Origins { _, attempt in UInt32(attempt) / 2 })
        peers.events = PortRuntime.shared
        func connected() throws -> (Raw, UInt32) {
            var pair: [Int32] = [-1, -1]
            #expect(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0, &pair) == 0)
            let peer = Raw(pair[1])
            peer.send(Samples.hello(.random()))
            peers.accept(ControlSocket(pair[0]))
            return (peer, try #require(peer.receive()?.withUnsafeBytes { ControlHello($0) }).origin)
        }
        let all = try (0..<3).map { _ in try connected() }
        for (peer, origin) in all {
            #expect(peers.send(.credit(1, bytes: UInt64(origin)), to: origin))
            #expect(peer.receive() == Samples.packet(.credit(1, bytes: UInt64(origin))))
        }
        for (peer, _) in all { #expect(!peer.isReadable(before: .now)) }
        #expect(all.map(\.1) == [1, 2, 3])
    }

    @Test func `an origin is free again when its process is gone`() throws {
        let incarnations = (0..<2).map { _ in Incarnation.random() }
        var origins = Origins { _, attempt in UInt32(attempt) }
        #expect(incarnations.map { origins.number(of: .init(incarnation: $0, pid: 1)) } == [1, 2])
        origins.remove(incarnations[0])
        #expect(origins.owner(of: 1) == nil)
        #expect(origins.owner(of: 2)?.incarnation == incarnations[1])
        #expect(origins.number(of: .init(incarnation: .random(), pid: 1)) == 1)
    }

    @Test func `what is less than an eighth of the limit is told when nothing is left`() throws {
        let port = try MachPort(byteLimit: 10_000, nameServer: sandbox.names)
        try sandbox.names.register(port, name: "test")
        let peer = try Raw(callingAt: sandbox.file("\(PortRuntime.shared.incarnation)/c"))
        peer.send(Samples.hello(.random()))
        let origin = try #require(peer.receive()?.withUnsafeBytes { ControlHello($0) }).origin
        try send(2, from: origin, to: port)
        #expect(errorKind { _ = try port.receive(before: .distantPast) } == "receiveTimedOut")
        var told = 0
        while told < 240, let packet = peer.receive(), !packet.isEmpty {
            guard case .credit(port.id.number, let bytes) = packet.withUnsafeBytes({ ControlMessage($0) }) else {
                break
            }
            told += Int(bytes)
        }
        #expect(told == 240)
    }

    // MARK: Statistics

    /// A peer that has said hello.
    private func peer(at path: String) throws -> Raw {
        let peer = try Raw(callingAt: path)
        peer.send(Samples.hello(.random()))
        #expect(peer.receive()?.count == ControlHello.size)
        return peer
    }

    /// Everything that the peer has sent before was read.
    private func expectRead(_ peer: Raw) {
        peer.send(Samples.packet(.watch(.max)))
        while let packet = peer.receive(), packet != Samples.packet(.invalidated(.max)) {
            if packet.isEmpty { return #expect(Bool(false), "it was cut off") }
        }
    }

    @Test func `a peer may say that it has sent any number of messages`() throws {
        let (port, path) = try exposed()
        let number = port.id.number
        let liars = try (0..<3).map { _ in try peer(at: path) }
        try port.sendRight.send(MachPort.Message())
        for liar in liars { liar.send(Samples.packet(.sent(number, count: .max))) }
        for liar in liars { expectRead(liar) }
        #expect(try port.sendRight.statistics().waiting >= 1)
        _ = try port.receive(before: .patience)
        for _ in 0..<3 { #expect(try port.sendRight.statistics().received == 1) }
        liars[0].send(Samples.packet(.sent(number, count: 0)))
        expectRead(liars[0])
        #expect(try port.sendRight.statistics().received == 1)
    }

    @Test func `of senders that are gone nothing is kept but the sum`() throws {
        let (port, path) = try exposed()
        for _ in 0..<20 {
            let sender = try peer(at: path)
            sender.send(Samples.packet(.sent(port.id.number, count: 2)))
            expectRead(sender)
            #expect(port.receiver.counts.withLock { $0.knownSenderCount } > 0)
        }
        #expect(waitUntil { port.receiver.counts.withLock { $0.knownSenderCount } == 0 })
        #expect(try port.sendRight.statistics() == .init(received: 0, waiting: 40))
    }

    @Test func `however often somebody asks, the senders are asked one at a time`() throws {
        let (port, path) = try exposed()
        let silent = try peer(at: path)
        silent.send(Samples.packet(.watch(port.id.number)))
        expectRead(silent)
        let began = ContinuousClock.now
        let answers = try (0..<200).map { _ in try port.runtime.statistics.statistics(of: port.id.number) }
        #expect(answers.last?.wait(until: .patience) != nil)
        var count = 0
        while silent.isReadable(before: .now) {
            #expect(silent.receive() == Samples.packet(.count(port.id.number)))
            count += 1
        }
        // One waits a tenth of a second for its answer.
        let most = 1 + Int(began.duration(to: .now) / .milliseconds(100))
        #expect((1...most).contains(count))
    }
}

extension ControlConnection {
    /// A connection that no loop serves.
    convenience init(_ descriptor: Int32, to pid: pid_t) {
        let hello = ControlHello(incarnation: .random(), origin: 1)
        self.init(ControlSocket(descriptor), hello, pid, PortRuntime.shared.control)
    }
}
