import CRunLoopShims
import Glibc
import OwnThread
import PortsInspection
import RunLoops
import TestSupport
import Testing
import ZeroMQ

@testable import FuzzTargets
@testable import Ports

/// Who is taken for dead, and who learns of a death.
@Suite(.ownThread) struct LivenessTests {
    var sandbox = Sandbox()

    @Test func `a process that has called a stopped one in vain is found by it afterwards`() throws {
        for round in 0..<Scale.count(4, long: 100) { try Self.callInVain(callers: 2 + round * 7 % 29, sandbox) }
    }

    static func callInVain(callers: Int, _ sandbox: Sandbox) throws {
        let desk = try Desk(sandbox)
        // Nobody is connected to it.
        let looker = Child("look", in: sandbox)
        #expect(waitUntil { (try? sandbox.names.registration(forName: "looker"))??.pid == looker.pid })
        looker.stop()
        let attempts = (0..<callers).map { caller in
            Helper {
                errorKind {
                    _ = try sandbox.names.port(
                        forName: "looker", before: .now + .milliseconds(Int64(5 + caller * 3)))
                }
            }
        }
        for attempt in attempts { #expect(attempt.value() == "cannotConnect") }
        looker.signal(SIGCONT)
        let report = try desk.port.receive(before: .patience)
        #expect(
            report.withBytes { String(decoding: $0.withUnsafeBytes { Array($0) }, as: UTF8.self) }
                == "found 50 times, 0 ended")
    }

    /// The control socket of a process that does not exist, and a right to a port of that process.
    private func stand(byteLimit: Int = 0) throws -> (listener: Int32, MachPort.SendRight) {
        let incarnation = Incarnation.random()
        #expect(mkdir(sandbox.file("\(incarnation)"), 0o700) == 0)
        let listener = try LocalSocket.listen(at: sandbox.file("\(incarnation)/c"), kind: .sequencedPackets)
        let right = WireRight(
            id: PortID(incarnation: incarnation, number: 1), queueLimit: 100, limit: 1000,
            byteLimit: byteLimit, path: sandbox.path)
        return (listener, MachPort.SendRight(PortRuntime.shared.channels.channel(to: right)))
    }

    /// Accepts this process's call at the stand, and hears what it asks for.
    private func accept(_ listener: Int32, _ incarnation: Incarnation) -> Int32 {
        let isCalled = crl_poll(listener, -1, MonotonicInstant.patience.timeout) > 0
        let caller = isCalled ? crl_unforked_accept(listener) : -1
        #expect(packet(from: caller)?.count == ControlHello.size)
        let hello = Samples.hello(incarnation)
        #expect(send(caller, hello, hello.count, Int32(MSG_NOSIGNAL)) == hello.count)
        #expect(packet(from: caller) == Samples.packet(.watch(1)))
        return caller
    }

    @Test(arguments: [false, true])
    func `a connection that is cut proves no death, and nobody at the socket does`(_ isDead: Bool) throws {
        let (listener, right) = try stand()
        let incarnation = right.id.incarnation
        let told = Latch()
        right.onInvalidation { told.open() }
        let first = accept(listener, incarnation)
        if isDead {
            // A child of another test, which has not come to its program yet, may have the descriptor, too.
            shutdown(listener, Int32(SHUT_RDWR))
            close(listener)
        }
        crl_unforked_close(first)
        if !isDead {
            // It calls again, and asks again.
            let second = accept(listener, incarnation)
            #expect(right.isValid)
            let packet = Samples.packet(.invalidated(1))
            #expect(send(second, packet, packet.count, 0) == packet.count)
            #expect(told.wait(until: .patience))
            crl_unforked_close(second)
            close(listener)
        }
        #expect(told.wait(until: .patience))
        #expect(!right.isValid)
    }

    @Test func `what a cut connection has not told of taken bytes holds up no sender`() throws {
        let (listener, right) = try stand(byteLimit: 1000)
        let incarnation = right.id.incarnation
        let socket = try ZeroMQSocket(.pull, in: try ZeroMQContext())
        try socket.bind("ipc://\(sandbox.file("\(incarnation)/1"))")
        right.onInvalidation {}
        let first = accept(listener, incarnation)
        // A new connection gives credit back, also for what was sent just before.
        try right.channel.connectToOwner(before: .patience)
        let hasBegun = Latch()
        try right.channel.channels.housekeeping.perform { hasBegun.open() }
        #expect(hasBegun.wait(until: .patience))
        let message = MachPort.Message([.bytes([UInt8](repeating: 7, count: 900))])
        try right.send(message, before: .patience)
        #expect(errorKind { try right.send(message, before: .distantPast) } == "sendTimedOut")
        let sender = Helper { errorKind { try right.send(message, before: .patience) } }
        #expect(waitUntil { right.channel.waiterCount == 1 })
        crl_unforked_close(first)
        let second = accept(listener, incarnation)
        #expect(sender.value() == "none")
        crl_unforked_close(second)
        close(listener)
    }

    @Test func `a process whose caller hangs up after its hello does not take that one for dead`() throws {
        let port = try MachPort(nameServer: sandbox.names)
        try sandbox.names.register(port, name: "test")
        let (listener, right) = try stand()
        defer { close(listener) }
        let calls = Shared(0)
        right.onInvalidation { calls.withLock { $0 += 1 } }
        let hello = Samples.hello(right.id.incarnation)
        for packets in 1...3 {
            for _ in 0..<20 {
                let caller = try LocalSocket.make(.sequencedPackets)
                #expect(LocalSocket.connect(caller, to: sandbox.file("\(PortRuntime.shared.incarnation)/c")) == 0)
                #expect(send(caller, hello, hello.count, Int32(MSG_NOSIGNAL)) == hello.count)
                for _ in 1..<packets {
                    let packet = Samples.packet(.watch(port.id.number))
                    _ = send(caller, packet, packet.count, Int32(MSG_NOSIGNAL))
                }
                close(caller)
            }
        }
        // What came before is done with when this is.
        #expect(try port.sendRight.statistics().waiting == 0)
        let child = Child("send", "1", in: sandbox)
        #expect(try port.receive(before: .patience).id == 0)
        #expect(child.wait() == 0)
        #expect(right.isValid)
        #expect(calls.withLock { $0 } == 0)
    }

    @Test func `a right that was lost is found anew by its port's name`() throws {
        let desk = try Desk(sandbox)
        let owner = Child("echo", "echo", in: sandbox)
        let lost = try desk.report()
        lost.channel.invalidate()
        #expect(errorKind { try lost.send(MachPort.Message()) } == "isInvalid")
        for _ in 0..<3 {
            let found = try RemoteMessagePort(name: "echo", nameServer: sandbox.names, before: .patience)
            #expect(found.isValid)
            #expect(!lost.isValid)
            #expect(try found.request(id: 1, [7]) == [7])
        }
        withExtendedLifetime(owner) {}
    }

    @Test func `a handler set while the owner is stopped is told when that is killed`() throws {
        // Nobody is connected to it.
        let owner = Child("hold", "held", in: sandbox)
        #expect(waitUntil { (try? sandbox.names.names().contains("held")) == true })
        owner.stop()
        var wire = try #require(try PortRuntime.shared.registry.directory(sandbox.path).entry("held")).right
        let right = MachPort.SendRight(PortRuntime.shared.channels.channel(to: wire))
        wire.id = PortID(incarnation: wire.id.incarnation, number: wire.id.number + 1000)
        let other = MachPort.SendRight(PortRuntime.shared.channels.channel(to: wire))
        let (told, otherTold) = (Latch(), Latch())
        right.onInvalidation {
            other.onInvalidation { otherTold.open() }
            told.open()
        }
        owner.kill()
        #expect(told.wait(until: .patience))
        #expect(!right.isValid)
        #expect(otherTold.wait(until: .patience))
        #expect(!other.isValid)
    }

    @Test func `a handler may send to a port that its thread has to connect to first`() throws {
        let desk = try Desk(sandbox)
        let owner = Child("own", in: sandbox)
        let right = try desk.report()
        let echo = Child("echo", in: sandbox)
        let fresh = try desk.report()
        let outcome = Shared("not called")
        let done = Latch()
        right.onInvalidation {
            outcome.withLock { $0 = errorKind { try fresh.send(MachPort.Message(id: 1), before: .now + .seconds(30)) } }
            done.open()
        }
        owner.kill()
        #expect(done.wait(until: .patience))
        #expect(outcome.withLock { $0 } == "none")
        withExtendedLifetime(echo) {}
    }

    /// Kills a process whose child has not begun its program yet, and so keeps the descriptors of its parent open.
    ///
    /// - Returns: The right to the dead process's port, and the child, which the caller kills.
    private func killSpawner() throws -> (right: MachPort.SendRight, child: pid_t) {
        let desk = try Desk(sandbox)
        let parent = Child("spawn", in: sandbox)
        let right = try desk.report()
        defer { unlink(sandbox.path + ".fifo") }
        try right.send(MachPort.Message(replyPort: desk.port.sendRight), before: .patience)
        let child = pid_t(try desk.port.receive(before: .patience).id)
        parent.kill()
        #expect(parent.wait() == -SIGKILL)
        #expect(kill(child, 0) == 0)
        return (right, child)
    }

    @Test func `a dead process is known for one though a child before its program has its descriptors`() throws {
        let (right, child) = try killSpawner()
        defer { kill(child, SIGKILL) }
        let fresh = PortRuntime(directory: sandbox.path).nameServer
        #expect(errorKind { _ = try fresh.port(forName: "spawner", before: .patience) } == "nameNotFound")
        // It may have been noticed before.
        let kinds = ["receiveTimedOut", "becameInvalid", "isInvalid"]
        #expect(kinds.contains(errorKind { _ = try right.ping(before: .now + .seconds(1)) }))
        #expect(waitUntil(before: .now + .seconds(20)) { !right.isValid })
        #expect(kill(child, 0) == 0)
    }

    @Test func `a request in vain shows that its server is dead`() throws {
        let (right, child) = try killSpawner()
        defer { kill(child, SIGKILL) }
        #expect(
            errorKind { _ = try RemoteMessagePort(right).request(id: 1, timeout: .milliseconds(100)) } != "none")
        #expect(waitUntil(before: .now + .seconds(20)) { !right.isValid })
    }

    /// The next packet; empty at the end of the connection, nil when none came in time.
    private func packet(from descriptor: Int32) -> [UInt8]? {
        guard crl_poll(descriptor, -1, MonotonicInstant.patience.timeout) > 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = recv(descriptor, &bytes, bytes.count, 0)
        return Array(bytes.prefix(max(count, 0)))
    }

    @Test(arguments: [false, true])
    func `a fork in the middle of a handshake hides no death`(_ isCaller: Bool) throws {
        for _ in 0..<Scale.count(1, long: 50) { try forkInHandshake(isCaller) }
    }

    func forkInHandshake(_ isCaller: Bool) throws {
        let desk = try Desk(sandbox)
        let parent = Child("fork-on-demand", in: sandbox)
        let right = try desk.report()
        let (listener, stranger) = try stand()
        defer { close(listener) }
        let connection: Int32
        if isCaller {
            // It says hello, and waits for ours.
            try right.send(MachPort.Message([.port(stranger)]), before: .patience)
            #expect(crl_poll(listener, -1, MonotonicInstant.patience.timeout) > 0)
            connection = crl_unforked_accept(listener)
            #expect(packet(from: connection)?.count == ControlHello.size)
        } else {
            // It waits for our hello.
            connection = try LocalSocket.makeControl()
            #expect(LocalSocket.connect(connection, to: right.channel.controlAddress.path) == 0)
            for _ in 0..<3 { _ = try right.ping(before: .patience) }
        }
        defer { crl_unforked_close(connection) }
        try right.send(MachPort.Message(), before: .patience)
        let child = try desk.port.receive(before: .patience).withBytes {
            $0.unsafeLoadUnaligned(as: pid_t.self)
        }
        let forked = try #require(child)
        defer { kill(forked, SIGKILL) }
        if !isCaller {
            let hello = Samples.hello(.random())
            #expect(send(connection, hello, hello.count, 0) == hello.count)
            #expect(packet(from: connection)?.count == ControlHello.size)
        }
        parent.kill()
        #expect(parent.wait() == -SIGKILL)
        #expect(packet(from: connection) == [])
        #expect(kill(forked, 0) == 0)
    }
}
