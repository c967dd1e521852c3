import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct PingTests {
    let sandbox = Sandbox()

    @Test func `an owner gives signs of life, whether it reads or not`() throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        let right = try desk.report()
        for _ in 0..<100 { #expect(try right.ping(before: .patience) > .zero) }
        let threads = (0..<3).map { _ in Helper { (0..<50).count { _ in (try? right.ping(before: .patience)) != nil } }
        }
        for thread in threads { #expect(thread.value() == 50) }
        // Nothing is left of them, and the right is good for what it was.
        #expect(PortRuntime.shared.channels.existing(right.id) === right.channel)
        try right.send(MachPort.Message(id: 1), before: .patience)
        withExtendedLifetime(child) {}
    }

    @Test func `a port of this process answers, until it is invalid`() throws {
        let port = try MachPort()
        _ = try port.sendRight.ping()
        port.invalidate()
        #expect(errorKind { _ = try port.sendRight.ping() } == "isInvalid")
    }

    @Test func `an owner that is stopped gives none, and then again`() throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        let right = try desk.report()
        _ = try right.ping(before: .patience)
        child.stop()
        #expect(errorKind { _ = try right.ping(before: .now + .milliseconds(20)) } == "receiveTimedOut")
        child.signal(SIGCONT)
        _ = try right.ping(before: .patience)
        child.kill()
        #expect(child.wait() == -SIGKILL)
        #expect(waitUntil { !right.isValid })
        #expect(errorKind { _ = try right.ping() } == "isInvalid")
    }
}
