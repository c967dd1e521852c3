import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct CheckInDeskTests {
    let sandbox = Sandbox()

    @Test func `the first outcome of a check-in stands, and is told once`() throws {
        let port = try MachPort()
        let expectation = CheckInExpectation("it", pid: getpid(), parent: port.sendRight)
        let told = Shared<[Bool]>([])
        expectation.outcome.whenSet { outcome in told.withLock { $0.append((try? outcome.get()) != nil) } }
        expectation.fail(.timedOut(worker: "it"))
        expectation.outcome.set(.success(port.sendRight)) { Issue.record("the second outcome is told") }
        #expect(throws: CheckInError.timedOut(worker: "it")) { try expectation.wait(before: .patience) }
        #expect(told.withLock { $0 } == [false])
    }

    @Test func `only the process itself checks in for a thread, and only the child for a child`() throws {
        let port = try MachPort()
        func met(_ expected: pid_t?, _ pid: pid_t, _ uid: uid_t = geteuid()) -> Bool {
            CheckInExpectation("it", pid: expected, parent: port.sendRight)
                .isMet(by: .init(pid: pid, uid: uid, gid: getegid()))
        }
        #expect(met(getpid(), getpid()) && !met(getpid(), getppid()))
        #expect(met(7, 7) && !met(7, 8) && !met(nil, 7))
        #expect(!met(7, 7, geteuid() + 1))
    }

    @Test func `whoever checks in and takes no answer holds up nobody`() throws {
        let name = try sandbox.names.runtime.checkInDesk.registeredName(sandbox.names)
        let desk = try sandbox.names.port(forName: name)
        let stuck = try MachPort(queueLimit: 1)
        while (try? stuck.sendRight.send(MachPort.Message(), before: .distantPast)) != nil {}
        let number = [UInt8](repeating: 0, count: 8)
        let (loop, waiting) = (try PortRuntime.shared.housekeeping.loop(), Shared(0))
        // The thread that serves the desk does something else while an answer waits.
        try #require(
            try waitUntil {
                try desk.send(.init(id: CheckIn.messageID, [.bytes(number)], replyPort: stuck.sendRight))
                loop.perform { waiting.withLock { $0 = max($0, stuck.sendRight.channel.waiterCount) } }
                return waiting.withLock { $0 } > 0
            })
        // As many as ever may want to check in: only so many answers wait.
        for _ in 0..<300 {
            try desk.send(.init(id: CheckIn.messageID, [.bytes(number)], replyPort: stuck.sendRight))
        }
        #expect(stuck.sendRight.channel.waiterCount <= 100)
    }
}
