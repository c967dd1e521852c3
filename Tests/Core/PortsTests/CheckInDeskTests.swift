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
        #expect(met(getpid(), getpid()))
        #expect(!met(getpid(), getppid()))
        #expect(met(7, 7))
        #expect(!met(7, 8))
        #expect(!met(nil, 7))
        #expect(!met(7, 7, geteuid() + 1))
    }

    /// A worker before version 2 takes the welcome at its own port.
    @Test func `an older worker that takes its time to take the welcome gets it, and gets it first`() throws {
        let runtimes = (PortRuntime(directory: sandbox.path), PortRuntime(directory: sandbox.path))
        let (launcher, other) = (runtimes.0.nameServer, runtimes.1.nameServer)
        let (parent, mine) = (try MachPort(nameServer: launcher), try MachPort(nameServer: other))
        // The welcome has no room yet.
        let worker = runtimes.0.channels.channel(to: try mine.receiver.exposure.exposedRight())
        let waiter = ThreadWaiter()
        worker.join(waiter)
        let expectation = CheckInExpectation("it", pid: getpid(), parent: parent.sendRight)
        let desk = runtimes.0.checkInDesk
        let name = try desk.registeredName(launcher)
        let number = try desk.expect(expectation, launcher).number
        let desks = try other.port(forName: name, before: .patience)
        let checkIn = CheckIn(desk: desks, number: number, hasOwnAnswer: false)
        let check = Helper { Result { try checkIn.complete(with: mine, before: .patience) } }
        let right = try expectation.wait(before: .patience)
        #expect(check.value(before: .now + .milliseconds(1500)) == nil)
        let sender = Helper { portError { try right.send(MachPort.Message(id: 5), before: .patience) } }
        #expect(waitUntil { worker.waiterCount == 3 })
        worker.leave(waiter)
        #expect(try check.value()?.get().id == parent.id)
        #expect(sender.value() == .some(nil))
        #expect(try mine.receive(before: .patience).id == 5)
        withExtendedLifetime(runtimes) {}
    }

    @Test(arguments: [true, false])
    func `what a third process sends to a worker that checks in waits for the worker`(_ isTask: Bool) async throws {
        let runtimes = (0..<3).map { _ in PortRuntime(directory: sandbox.path) }
        let (launcher, names) = (runtimes[0].nameServer, runtimes[1].nameServer)
        let (parent, mine) = (try MachPort(nameServer: launcher), try MachPort(nameServer: names))
        try names.register(mine, name: "worker")
        let right = try await runtimes[2].nameServer.port(forName: "worker", before: .patience)
        // The first two have the ids of a welcome and of a refusal.
        for id in [CheckIn.welcomeID, CheckIn.refusalID, 5] {
            try await right.send(MachPort.Message(id: id, [.port(mine.sendRight)]), before: .patience)
        }
        let expectation = CheckInExpectation("it", pid: getpid(), parent: parent.sendRight)
        let desk = runtimes[0].checkInDesk
        let name = try desk.registeredName(launcher)
        let number = try desk.expect(expectation, launcher).number
        let checkIn = CheckIn(desk: try await names.port(forName: name, before: .patience), number: number)
        let found =
            if isTask {
                try await checkIn.complete(with: mine, before: .patience)
            } else {
                try #require(Helper { Result { try checkIn.complete(with: mine, before: .patience) } }.value()).get()
            }
        #expect(found.id == parent.id)
        for id in [CheckIn.welcomeID, CheckIn.refusalID, 5] {
            #expect(try await mine.receive(before: .patience).id == id)
        }
        withExtendedLifetime(runtimes) {}
    }

    @Test func `a runtime that has had workers ends with its last user`() throws {
        weak var ended: PortRuntime?
        do {
            let runtime = PortRuntime(directory: sandbox.path)
            ended = runtime
            _ = try runtime.checkInDesk.registeredName(runtime.nameServer)
            let worker = try WorkerThread.launch(nameServer: runtime.nameServer) { checkIn in
                let port = try MachPort(nameServer: runtime.nameServer)
                _ = try checkIn.complete(with: port)
                try port.schedule(in: .current)
            }
            let port = try worker.port
            worker.thread.stop()
            worker.thread.join()
            withExtendedLifetime(port) {}
        }
        #expect(waitUntil { ended == nil })
    }

    @Test func `whoever checks in and takes no answer holds up nobody`() throws {
        let name = try sandbox.names.runtime.checkInDesk.registeredName(sandbox.names)
        let desk = try sandbox.names.port(forName: name, before: .patience)
        let stuck = try MachPort(queueLimit: 1)
        while (try? stuck.sendRight.send(MachPort.Message(), before: .distantPast)) != nil {}
        let number = [UInt8](repeating: 0, count: 8)
        let (loop, waiting) = (try PortRuntime.shared.housekeeping.loop(), Shared(0))
        // The thread that serves the desk does something else while an answer waits.
        try #require(
            try waitUntil {
                try desk.send(.init(id: CheckIn.messageID, [.bytes(number)], replyPort: stuck.sendRight))
                try? loop.perform { waiting.withLock { $0 = max($0, stuck.sendRight.channel.waiterCount) } }
                return waiting.withLock { $0 } > 0
            })
        // Any number may want to check in, but only a limited number of answers waits.
        for _ in 0..<6000 {
            try desk.send(.init(id: CheckIn.messageID, [.bytes(number)], replyPort: stuck.sendRight))
        }
        #expect(stuck.sendRight.channel.waiterCount <= 4100)
    }

    @Test func `the name that workers check in by is no service, whatever others call theirs`() async throws {
        let runtime = PortRuntime(directory: sandbox.path)
        let name = try runtime.checkInDesk.registeredName(runtime.nameServer)
        let port = try MachPort(nameServer: sandbox.names)
        // Nobody's services disappear because of their names.
        let similar = "check-in.\(Incarnation.random())"
        try sandbox.names.register(port, name: similar)
        #expect(try sandbox.names.names() == [similar])
        #expect(try sandbox.names.registrations().map(\.name) == [similar])
        let all = try sandbox.names.registrations(includingInternal: true)
        #expect(Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0.isService) }) == [name: false, similar: true])
        #expect(try await sandbox.names.map().ports.map(\.names) == [[similar]])
        let watch = try PortNameWatch(sandbox.names)
        guard case .came(let registration)? = try await watch.next(before: .patience) else {
            Issue.record("nothing came")
            return
        }
        #expect(registration.name == similar)
        // It is found all the same, and stays what it is when its entry is written again.
        #expect(try await sandbox.names.port(forName: name, before: .patience).isValid)
        let directory = try runtime.nameServer.registryDirectory()
        #expect(try directory.renew(NameEntry.fileName(for: name)))
        #expect(try sandbox.names.registration(forName: name)?.isService == false)
        #expect(await runtime.counters().named.isEmpty)
        withExtendedLifetime(port) {}
    }
}
