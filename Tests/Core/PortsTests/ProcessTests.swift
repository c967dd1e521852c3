import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Ports among real processes.
@Suite(.ownThread) struct ProcessTests {
    let sandbox = Sandbox()

    // MARK: Messages

    @Test func `messages of another process arrive in order and complete, though it has ended`() throws {
        let desk = try Desk(sandbox)
        let child = Child("send", "10000", in: sandbox)
        for number in 0..<10_000 as Range<UInt32> {
            let message = try desk.port.receive(before: .patience)
            guard message.id == number else {
                Issue.record("\(message.id) came in place of \(number)")
                break
            }
            if number == 0 {
                #expect(message.sender == SenderCredentials(pid: child.pid, uid: geteuid(), gid: getegid()))
            }
        }
        #expect(child.wait() == 0)
        #expect(errorKind { _ = try desk.port.receive(before: .distantPast) } == "receiveTimedOut")
    }

    @Test func `a slow receiver makes its sender wait, and loses nothing`() throws {
        let desk = try Desk(sandbox, queueLimit: 10)
        let child = Child("send", "3000", in: sandbox)
        for number in 0..<3000 as Range<UInt32> {
            let id = try? desk.port.receive(before: .patience).id
            #expect(id == number)
            guard id != nil else { break }
        }
        #expect(child.wait() == 0)
    }

    @Test func `requests go to another process and back`() throws {
        let desk = try Desk(sandbox)
        let child = Child("echo", "there", in: sandbox)
        _ = try desk.report()
        let remote = try RemoteMessagePort(name: "there", nameServer: sandbox.names, before: .patience)
        for size in [0, 1, 1000, 300_000] {
            let data = [UInt8](repeating: UInt8(truncatingIfNeeded: size), count: size)
            #expect(try remote.request(id: 1, data) == data)
        }
        #expect(try remote.request(id: 1, nil) == nil)
        // The replies came to a port in the same directory: it may be the only one that both can use.
        let replies = try PortRuntime.shared.replies.use(for: remote.sendRight.channel).port
        let socket = "\(sandbox.path)/\(PortRuntime.shared.incarnation)/\(replies.id.number)"
        #expect(access(socket, F_OK) == 0)
        let askers = (0..<3).map { asker in
            Helper {
                (0..<100).count {
                    (try? remote.request(id: 1, [UInt8(asker), UInt8($0)])) == [UInt8(asker), UInt8($0)]
                }
            }
        }
        for asker in askers { #expect(asker.value() == 100) }
        let ended = Latch()
        remote.sendRight.onInvalidation { ended.open() }
        try remote.send(id: 99)
        #expect(child.wait() == 0)
        #expect(ended.wait(until: .patience))
        #expect(!remote.isValid)
    }

    @Test func `a right passes through a second process to a third, and back`() throws {
        let desk = try Desk(sandbox)
        let (second, third) = (Child("post", in: sandbox), Child("post", in: sandbox))
        let rights = try [desk.report(), desk.report()]
        let mine = try MachPort(nameServer: sandbox.names)
        try rights[0].send(MachPort.Message([.port(rights[1]), .port(mine.sendRight)]), before: .patience)
        let message = try mine.receive(before: .patience)
        #expect(message.id == 8)
        // It has come home, and is the right that it was.
        #expect(message.components == [.port(mine.sendRight)])
        let sender = try #require(message.sender)
        #expect([second.pid, third.pid].contains(sender.pid))
        #expect(sender.uid == geteuid())
    }

    // MARK: The end of a process

    @Test func `the death of an owner is known to all who wait, and to all rights`() throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        let right = try desk.report()
        let told = Latch()
        right.onInvalidation { told.open() }
        let asker = Helper {
            errorKind { _ = try RemoteMessagePort(right).request(id: 1, timeout: .seconds(1000)) }
        }
        #expect(waitUntil { PortRuntime.shared.replies.pending.pendingCount(to: right.id) == 1 })
        // So much that neither the queues nor the kernel can hold it.
        let large = MachPort.Message([.bytes([UInt8](repeating: 1, count: 100_000))])
        let senders = (0..<3).map { _ in Helper { errorKind { while true { try right.send(large) } } } }
        #expect(waitUntil { right.channel.waiterCount >= 3 })
        let other = try MachPort(nameServer: sandbox.names)
        #expect(
            portError { try sandbox.names.register(other, name: "owned") }?.port?.pid == child.pid)

        child.kill()
        #expect(told.wait(until: .patience))
        // Most are blocked, but one may be between two messages.
        for sender in senders { #expect(["becameInvalid", "isInvalid"].contains(sender.value() ?? "it hangs")) }
        #expect(["becameInvalid", "isInvalid"].contains(asker.value() ?? "it hangs"))
        #expect(!right.isValid)
        #expect(errorKind { try right.send(MachPort.Message()) } == "isInvalid")
        #expect(errorKind { _ = try sandbox.names.port(forName: "owned") } == "nameNotFound")
        try sandbox.names.register(other, name: "owned")
        #expect(try sandbox.names.port(forName: "owned", before: .patience) == other.sendRight)
    }

    @Test func `what a killed process has left is gone when the next one comes`() throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        _ = try desk.report()
        let folder = sandbox.files.first { Incarnation($0).map { $0 != PortRuntime.shared.incarnation } ?? false }
        child.kill()
        #expect(child.wait() == -SIGKILL)
        #expect(sandbox.files.contains(try #require(folder)))
        let next = Child("echo", in: sandbox)
        _ = try desk.report()
        #expect(!sandbox.files.contains(try #require(folder)))
        #expect(try sandbox.names.names() == ["test"])
        withExtendedLifetime(next) {}
    }

    @Test func `a process that ends in order leaves nothing behind`() throws {
        let desk = try Desk(sandbox)
        let before = sandbox.files
        let child = Child("echo", "orderly", in: sandbox)
        let right = try desk.report()
        #expect(sandbox.files.count > before.count)
        try RemoteMessagePort(right).send(id: 99)
        #expect(child.wait() == 0)
        #expect(sandbox.files == before)
    }

    @Test func `a program may return while its threads send, receive and wait`() throws {
        let desk = try Desk(sandbox)
        for _ in 0..<5 {
            let child = Child("busy", in: sandbox)
            while try desk.port.receive(before: .patience).id != 1 {}
            let reader = Helper { () -> Bool in
                while (try? desk.port.receive(before: .now + .milliseconds(500))) != nil {}
                return true
            }
            #expect(child.wait() == 0)
            #expect(reader.value() == true)
        }
    }

    @Test func `a fork has no ports, and does its parent's no harm`() throws {
        let desk = try Desk(sandbox)
        let child = Child("fork", in: sandbox)
        let right = try desk.report()
        let report = try desk.port.receive(before: .patience)
        #expect(report.id == 3)
        #expect(report.bytes == [0, 0])
        #expect(Set(try sandbox.names.names()) == ["test", "forked", "extra"])
        #expect(try RemoteMessagePort(right).request(id: 1, [5]) == [5])
        // Though a fork of it lives on, its end is its end.
        let survivor = try #require(
            pid_t(String(decoding: try desk.port.receive(before: .patience).bytes ?? [], as: UTF8.self)))
        defer { kill(survivor, SIGKILL) }
        let told = Latch()
        right.onInvalidation { told.open() }
        child.kill()
        #expect(told.wait(until: .patience))
        #expect(errorKind { _ = try sandbox.names.port(forName: "forked") } == "nameNotFound")
    }

    @Test(.enabled(if: !isThreadSanitized)) func `forks of a busy process get errors, and it loses nothing`() {
        let child = Child("fork-busy", Scale.isLong ? "2000" : "30", in: sandbox)
        #expect(child.wait(before: .now + .seconds(300)) == 0)
    }

    // MARK: Check-in

    private func launch(
        _ arguments: String..., before deadline: ContinuousClock.Instant = .patience, port: MachPort
    ) -> Result<WorkerProcess, CheckInError> {
        Result { () throws(CheckInError) in
            try WorkerProcess.launch(
                .init(Child.program, arguments), port: port.sendRight, nameServer: sandbox.names, before: deadline)
        }
    }

    @Test func `a worker checks in, reports, and is told to end`() throws {
        let port = try MachPort(nameServer: sandbox.names)
        let worker = try launch("worker", "a", "b c", port: port).get()
        let report = try port.receive(before: .patience)
        #expect(report.id == 5)
        #expect(report.bytes == Array(#"["a", "b c"]"#.utf8))
        #expect(report.sender?.pid == worker.pid)
        #expect(worker.status == nil)
        let ended = Latch()
        worker.onExit { status in if status == .exited(4) { ended.open() } }
        try worker.checkIn().send(MachPort.Message(id: 4), before: .patience)
        #expect(worker.waitForExit(before: .patience) == .exited(4))
        #expect(ended.wait(until: .patience))
        worker.send(signal: SIGKILL)
    }

    @Test func `a worker checks in by a directory that was removed and made again`() throws {
        let port = try MachPort(nameServer: sandbox.names)
        #expect(throws: Never.self) { try launch("worker", port: port).get().send(signal: SIGKILL) }
        try sandbox.remake()
        #expect(throws: Never.self) { try launch("worker", port: port).get().send(signal: SIGKILL) }
    }

    @Test(arguments: [
        ("die", "3", ThreadRunLoop.ExitStatus.exited(3)), ("die", "0", .exited(0)), ("signal", "9", .signaled(9)),
    ])
    func `a worker that dies before it checks in is an error with its cause`(
        _ command: String, _ argument: String, _ status: ThreadRunLoop.ExitStatus
    ) throws {
        let port = try MachPort(nameServer: sandbox.names)
        guard case .failure(.died(let worker, status)) = launch(command, argument, port: port) else {
            Issue.record("no such error")
            return
        }
        #expect(worker.contains("PortsTestHelper"))
    }

    @Test func `a silent worker is ended at the deadline`() throws {
        let port = try MachPort(nameServer: sandbox.names)
        let worker = try WorkerProcess.start(
            .init(Child.program, ["silent"]), port: port.sendRight, nameServer: sandbox.names)
        let outcome = Shared<CheckInError?>(nil)
        worker.onCheckIn { result in
            if case .failure(let error) = result { outcome.withLock { $0 = error } }
        }
        #expect(throws: CheckInError.self) { _ = try worker.checkIn(before: .now + .milliseconds(50)) }
        guard case .timedOut? = outcome.withLock({ $0 }) else {
            Issue.record("\(String(describing: outcome.withLock { $0 }))")
            return
        }
        #expect(worker.waitForExit(before: .patience) == .signaled(SIGKILL))
    }

    @Test func `a process that checks in in a worker's place is refused`() throws {
        let port = try MachPort(nameServer: sandbox.names)
        let worker = try WorkerProcess.start(
            .init(Child.program, ["grandchild"]), port: port.sendRight, nameServer: sandbox.names)
        do {
            _ = try worker.checkIn(before: .patience)
            Issue.record("let in")
        } catch {
            guard case .refused(_, let pid, let uid) = error else {
                Issue.record("\(error)")
                return
            }
            #expect(pid != worker.pid)
            #expect(uid == geteuid())
        }
        #expect(worker.waitForExit(before: .patience) == .signaled(SIGKILL))
    }

    @Test func `a program that is not there cannot be launched`() throws {
        let port = try MachPort(nameServer: sandbox.names)
        #expect(throws: CheckInError.self) {
            _ = try WorkerProcess.launch("/nonexistent", port: port.sendRight, nameServer: sandbox.names)
        }
        #expect(
            throws: CheckInError.notLaunched(
                reason: "PORTS_CHECK_IN is not set: this process was not launched as a worker")
        ) {
            _ = try CheckIn.fromEnvironment()
        }
    }

    @Test func `a worker thread checks in, and its failures are errors`() throws {
        struct Trouble: Error {}
        let port = try MachPort()
        let worker = try WorkerThread.launch(port: port.sendRight) { checkIn in
            let mine = try MachPort { message in try? message.replyPort?.send(MachPort.Message(id: message.id + 1)) }
            let parent = try checkIn.complete(with: mine)
            try mine.schedule(in: .current)
            try parent.send(MachPort.Message(id: 1))
        }
        #expect(try port.receive(before: .patience).id == 1)
        try worker.port.send(MachPort.Message(id: 5, replyPort: port.sendRight))
        #expect(try port.receive(before: .patience).id == 6)
        #expect(throws: CheckInError.self) { _ = try WorkerThread.launch(port: port.sendRight) { _ in } }
        #expect(throws: CheckInError.self) {
            _ = try WorkerThread.launch(port: port.sendRight) { _ in throw Trouble() }
        }
        let release = Latch()
        #expect(throws: CheckInError.timedOut(worker: "thread “slow”")) {
            _ = try WorkerThread.launch(name: "slow", port: port.sendRight, before: .now + .milliseconds(20)) { _ in
                _ = release.wait(until: .patience)
            }
        }
        release.open()
    }
}
