import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct MessagePortTests {
    let sandbox = Sandbox()

    /// A server on a thread of its own.
    private final class Server: Sendable {
        let port: LocalMessagePort
        let thread: RunLoopThread

        init(_ port: LocalMessagePort) throws {
            self.port = port
            thread = try RunLoopThread()
            try port.schedule(in: thread.loop)
        }

        convenience init(_ handler: @escaping LocalMessagePort.DataHandler) throws {
            try self.init(LocalMessagePort(handler: handler))
        }

        deinit { thread.stop() }

        var remote: RemoteMessagePort { RemoteMessagePort(port.sendRight) }
    }

    @Test func `a reply has data, no bytes, or no data`() throws {
        let server = try Server { id, data in id == 0 ? nil : data.map { $0 + [UInt8(id)] } ?? [] }
        #expect(try server.remote.request(id: 7, [1, 2]) == [1, 2, 7])
        #expect(try server.remote.request(id: 1, nil) == [])
        #expect(try server.remote.request(id: 0, [1]) == nil)
        #expect(try server.remote.request(id: 9, []) == [9])
    }

    @Test func `a send wants no reply`() throws {
        let (asked, done) = (Shared<[String]>([]), Latch())
        let port = try LocalMessagePort(requestHandler: { request in
            asked.withLock { $0.append("\(request.id) \(request.data ?? [0]) \(request.replyRight == nil)") }
            if request.id == 2 { done.open() }
        })
        let server = try Server(port)
        try server.remote.send(id: 1)
        try server.remote.send(id: 2, [5])
        #expect(done.wait(until: .patience))
        #expect(asked.withLock { $0 } == ["1 [0] true", "2 [5] true"])
    }

    @Test func `large data goes both ways`() throws {
        let server = try Server { _, data in data.map { $0.reversed() } }
        let data = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        #expect(try server.remote.request(id: 1, data) == data.reversed())
    }

    @Test func `a reply that does not come in time is an error, and counted when it comes late`() throws {
        let rights = Shared<[ReplyRight]>([])
        let taken = Latch()
        let port = try LocalMessagePort(requestHandler: { request in
            if let right = request.replyRight { rights.withLock { $0.append(right) } }
            taken.open()
        })
        let server = try Server(port)
        let began = ContinuousClock.now
        #expect(
            errorKind { _ = try server.remote.request(id: 1, timeout: .milliseconds(40)) } == "receiveTimedOut")
        #expect(began.duration(to: .now) >= .milliseconds(40))
        #expect(taken.wait(until: .patience))
        let before = PortRuntime.shared.lateReplyCount
        try rights.withLock { $0 }.first?.reply(with: [1])
        rights.withLock { $0 = [] }
        // The next request on this thread takes the late reply first.
        let echo = try Server { _, data in data }
        #expect(try echo.remote.request(id: 1, [3]) == [3])
        #expect(PortRuntime.shared.lateReplyCount > before)
    }

    @Test func `a request that finds no room in time was not sent`() throws {
        let server = try MachPort(queueLimit: 1)
        while (try? server.sendRight.send(MachPort.Message(), before: .distantPast)) != nil {}
        let remote = RemoteMessagePort(server.sendRight)
        #expect(errorKind { _ = try remote.request(id: 1, timeout: .milliseconds(20)) } == "sendTimedOut")
        #expect(errorKind { try remote.send(id: 1, timeout: .milliseconds(20)) } == "sendTimedOut")
        #expect(PortRuntime.shared.replies.pending.pendingCount(to: server.sendRight.id) == 0)
    }

    @Test func `while a request waits, its mode goes on`() throws {
        let (goOn, rights) = (Latch(), Shared<[ReplyRight]>([]))
        let port = try LocalMessagePort(requestHandler: { request in
            if let right = request.replyRight { rights.withLock { $0.append(right) } }
            goOn.open()
        })
        let server = try Server(port)
        let remote = server.remote
        let asker = Helper { () -> [String] in
            var trace: [String] = []
            let loop = ThreadRunLoop.current
            let ticks = Shared(0)
            _ = try? loop.add(
                ThreadRunLoop.Timer(after: .milliseconds(1), repeats: true) { _ in
                    let count = ticks.withLock { ticks in
                        ticks += 1
                        return ticks
                    }
                    if count == 10, goOn.wait(until: .patience) {
                        try? rights.withLock { $0 }.first?.reply(with: [4])
                    }
                }, forMode: "waiting")
            let answer = try? remote.request(id: 1, timeout: .seconds(20), replyMode: "waiting")
            trace.append("\(answer.flatMap(\.self) ?? [])")
            trace.append("\(ticks.withLock { $0 } >= 10)")
            return trace
        }
        #expect(asker.value() == ["[4]", "true"])
    }

    @Test func `requests nest`() throws {
        let inner = try Server { _, data in data.map { $0 + [2] } }
        let innerRemote = inner.remote
        let outer = try Server { _, data in (try? innerRemote.request(id: 1, data)).flatMap(\.self).map { $0 + [3] } }
        #expect(try outer.remote.request(id: 1, [1]) == [1, 2, 3])
    }

    @Test func `a request made by a source of the waiting loop has its own reply`() throws {
        // The first is answered after the second: else its reply could come, by another asking thread, before it waits.
        let outer = Shared<MessagePortRequest?>(nil)
        let port = try LocalMessagePort(requestHandler: { request in
            guard request.id == 2 else { return outer.withLock { $0 = request } }
            for request in [request, outer.withLock { $0 }] { try? request?.replyRight?.reply(with: request?.data) }
        })
        let echo = try Server(port)
        let remote = echo.remote
        let asker = Helper { () -> [[UInt8]?] in
            let inner = Shared<[UInt8]?>(nil)
            let source = ThreadRunLoop.Source0 {
                inner.withLock { $0 = (try? remote.request(id: 2, [2], replyMode: "m")) ?? nil }
            }
            _ = try? ThreadRunLoop.current.add(source, forMode: "m")
            source.signal()
            let outer = (try? remote.request(id: 1, [1], replyMode: "m")) ?? nil
            return [outer, inner.withLock { $0 }]
        }
        #expect(asker.value() == [[1], [2]])
        echo.thread.stop()
    }

    @Test func `threads that ask at once have their own replies`() throws {
        let server = try Server { id, data in data.map { $0 + [UInt8(truncatingIfNeeded: id)] } }
        let remote = server.remote
        let before = openDescriptors()
        let askers = (0..<4).map { asker in
            Helper { () -> Int in
                (0..<500).count { number in
                    let data = [UInt8(asker), UInt8(truncatingIfNeeded: number)]
                    return (try? remote.request(id: UInt32(number), data)) == data + [UInt8(truncatingIfNeeded: number)]
                }
            }
        }
        for asker in askers { #expect(asker.value() == 500) }
        #expect(PortRuntime.shared.replies.pending.pendingCount(to: server.port.sendRight.id) == 0)
        // Two thousand requests have kept no descriptor; other tests come and go.
        #expect(waitUntil { openDescriptors() - before < 500 })
    }

    @Test func `a request may be answered later, by another thread`() throws {
        let answerer = try RunLoopThread()
        let port = try LocalMessagePort(requestHandler: { request in
            try? answerer.loop.perform { try? request.replyRight?.reply(with: request.data.map { $0 + [1] }) }
        })
        let server = try Server(port)
        #expect(try server.remote.request(id: 1, [0]) == [0, 1])
        answerer.stop()
    }

    @Test func `a request that is let go of is unanswered at once`() throws {
        let port = try LocalMessagePort(requestHandler: { _ in })
        let server = try Server(port)
        #expect(
            errorKind { _ = try server.remote.request(id: 1, timeout: .seconds(1000)) } == "unanswered")
    }

    @Test func `a port for replies refuses requests`() throws {
        let port = try MachPort()
        let replies = try PortRuntime.shared.replies.use(for: port.sendRight.channel, isForTasks: true).port
        #expect(
            errorKind {
                _ = try RemoteMessagePort(MachPort.SendRight(replies.channel)).request(
                    id: 1, timeout: .seconds(1000))
            }
                == "refused")
    }

    @Test func `only who knows a request's number can refuse it, and the first outcome stands`() throws {
        let replies = PortRuntime.shared.replies.pending
        let pending = PendingReply(channel: try MachPort().sendRight.channel, replyPort: 1)
        let request = replies.add(pending)
        replies.fail(request + 1) { .unanswered(port: $0) }
        #expect(pending.outcome.value == nil)
        replies.fail(request) { .unanswered(port: $0) }
        pending.outcome.set(.failure(.becameInvalid(port: PortIdentity(pending.port))))
        #expect(errorKind { _ = try pending.outcome.value?.get() } == "unanswered")
    }

    @Test func `the end of a port costs what its own requests cost`() {
        struct Counted: PendingRequest {
            let reads: Shared<Int>
            let id: PortID
            var port: PortID {
                reads.withLock { $0 += 1 }
                return id
            }
        }
        let reads = Shared(0)
        let ports = (0..<500 as Range<UInt64>).map { PortID(incarnation: .random(), number: $0) }
        var table = PendingTable<UInt64, Counted>()
        for number in 0..<(1000 as UInt64) {
            table.add(Counted(reads: reads, id: ports[Int(number / 2)]), number)
        }
        #expect(table.remove(0)?.id == ports[0])
        #expect(table.remove(0) == nil)
        for port in ports {
            let count = port == ports[0] ? 1 : 2
            #expect(table.count(to: port) == count)
            let removed = table.removeAll(to: port)
            #expect(removed.count == count)
            #expect(removed.allSatisfy { $0.id == port })
            #expect(table.count(to: port) == 0)
            #expect(table.removeAll(to: port).isEmpty)
        }
        #expect((0..<1000).allSatisfy { table[$0] == nil })
        // A few for each request.
        #expect(reads.withLock { $0 } <= 4 * 1000)
    }

    @Test func `messages and requests that a port cannot handle are refused`() throws {
        let port = try MachPort { _ in }
        let thread = try served(port)
        #expect(
            errorKind { _ = try RemoteMessagePort(port.sendRight).request(id: 1, timeout: .seconds(1000)) }
                == "refused")
        thread.stop()
    }

    @Test func `the end of the server ends the requests that wait`() throws {
        let (taken, rights) = (Latch(), Shared<[ReplyRight]>([]))
        let port = try LocalMessagePort(requestHandler: { request in
            if let right = request.replyRight { rights.withLock { $0.append(right) } }
            taken.open()
        })
        let server = try Server(port)
        let remote = server.remote
        let asker = Helper { errorKind { _ = try remote.request(id: 1, timeout: .seconds(1000)) } }
        #expect(taken.wait(until: .patience))
        port.invalidate()
        #expect(asker.value() == "becameInvalid")
        #expect(!remote.isValid)
        rights.withLock { $0 = [] }
    }

    @Test func `a reply that was sent before the end of its port arrives, though its sender is held up`() throws {
        let runtimes = (PortRuntime(directory: sandbox.path), PortRuntime(directory: sandbox.path))
        let goOn = Latch()
        let made = Shared<LocalMessagePort?>(nil)
        let port = try LocalMessagePort(
            name: "held", nameServer: runtimes.0.nameServer,
            requestHandler: { [housekeeping = runtimes.0.housekeeping] request in
                // As if the process were stopped: its peers hear nothing from it.
                try? housekeeping.perform { _ = goOn.wait(until: .patience) }
                try? request.replyRight?.reply(with: [7])
                made.withLock { $0.take() }?.invalidate()
            })
        made.withLock { $0 = port }
        let thread = try RunLoopThread()
        try port.schedule(in: thread.loop)
        let remote = try RemoteMessagePort(name: "held", nameServer: runtimes.1.nameServer, before: .patience)
        let asker = Helper { Result { try remote.request(id: 1, timeout: .seconds(60)) } }
        #expect(waitUntil { !remote.isValid })
        #expect(asker.value(before: .now + .milliseconds(500)) == nil)
        goOn.open()
        #expect(try asker.value()?.get() == [7])
        withExtendedLifetime((runtimes, thread)) {}
    }

    @Test(arguments: [PortRuntime.SharedMemoryUse.never, .whenPossible])
    func `a reply that has come counts, though its server is dead before anybody takes it`(
        _ sharedMemory: PortRuntime.SharedMemoryUse
    ) throws {
        let sandbox = Sandbox(sharedMemory: sharedMemory)
        let desk = try Desk(sandbox)
        let child = Child("answer", "right", in: sandbox)
        let server = RemoteMessagePort(try desk.report())
        let pending = sandbox.names.runtime.replies.pending
        // In the run that waits for the reply.
        try ThreadRunLoop.current.perform {
            #expect(child.wait() == 0)
            #expect(waitUntil { !server.isValid })
            // By a ring, the news of the death takes the reply.
            if sharedMemory == .whenPossible { return }
            // The request goes on.
            #expect(
                !waitUntil(before: .now + .milliseconds(500)) { pending.pendingCount(to: server.sendRight.id) == 0 })
        }
        #expect(try server.request(id: 1, [5], replyMode: .default) == [5])
    }

    @Test func `a reply that was sent before the end of its port arrives, however long it takes`() throws {
        let runtimes = (PortRuntime(directory: sandbox.path), PortRuntime(directory: sandbox.path))
        let (asked, right) = (Latch(), Shared<ReplyRight?>(nil))
        let port = try LocalMessagePort(
            name: "slow", nameServer: runtimes.0.nameServer,
            requestHandler: { request in
                right.withLock { $0 = request.replyRight }
                asked.open()
            })
        let thread = try RunLoopThread()
        try port.schedule(in: thread.loop)
        let remote = try RemoteMessagePort(name: "slow", nameServer: runtimes.1.nameServer, before: .patience)
        let asker = Helper { Result { try remote.request(id: 1, timeout: .seconds(60)) } }
        #expect(asked.wait(until: .patience))
        // The reply has no room yet.
        let channel = try #require(runtimes.0.channels.channels(to: runtimes.1.incarnation).first)
        let waiter = ThreadWaiter()
        channel.join(waiter)
        try right.withLock { $0 }?.reply(with: [7])
        port.invalidate()
        #expect(waitUntil { !remote.isValid })
        #expect(asker.value(before: .now + .milliseconds(500)) == nil)
        channel.leave(waiter)
        #expect(try asker.value()?.get() == [7])
        withExtendedLifetime((runtimes, thread)) {}
    }

    @Test func `the end of the asking thread's loop ends its request`() throws {
        let port = try MachPort()
        let (asking, outcome, done) = (Latch(), Shared("none"), Latch())
        let thread = try RunLoopThread()
        try thread.loop.perform {
            asking.open()
            let error = errorKind {
                _ = try RemoteMessagePort(port.sendRight).request(id: 1, timeout: .seconds(1000))
            }
            outcome.withLock { $0 = error }
            done.open()
        }
        #expect(asking.wait(until: .patience))
        thread.stop()
        #expect(done.wait(until: .patience))
        #expect(outcome.withLock { $0 } == "unavailable")
    }

    @Test func `names lead to ports, and belong to one at a time`() throws {
        let server = try LocalMessagePort(name: "echo", nameServer: sandbox.names) { _, data in data }
        let thread = try RunLoopThread()
        try server.schedule(in: thread.loop)
        #expect(server.name == "echo")
        let remote = try RemoteMessagePort(name: "echo", nameServer: sandbox.names, before: .patience)
        #expect(try remote.request(id: 1, [7]) == [7])
        #expect(
            portError { _ = try LocalMessagePort(name: "echo", nameServer: sandbox.names) { _, _ in nil } }?.port?.pid
                == getpid())
        let ended = Latch()
        server.onInvalidation { ended.open() }
        server.invalidate()
        #expect(ended.wait(until: .distantPast) || ended.wait(until: .now))
        #expect(!server.isValid)
        #expect(!remote.isValid)
        #expect(errorKind { _ = try RemoteMessagePort(name: "echo", nameServer: sandbox.names) } == "nameNotFound")
        _ = try LocalMessagePort(name: "echo", nameServer: sandbox.names) { _, _ in nil }
        thread.stop()
    }

    @Test func `a reply that cannot be sent leaves its right for another, and one that was sent does not`() throws {
        let outcomes = Shared<[String]>([])
        let port = try LocalMessagePort(requestHandler: { request in
            for count in [65 << 20, 1, 2] {
                let outcome = errorKind { try request.replyRight?.reply(with: [UInt8](repeating: 7, count: count)) }
                outcomes.withLock { $0.append(outcome) }
            }
        })
        let server = try Server(port)
        #expect(try server.remote.request(id: 1, timeout: .seconds(20)) == [7])
        #expect(waitUntil { outcomes.withLock { $0 } == ["messageTooLarge", "none", "alreadyAnswered"] })
    }

    // MARK: Slow askers

    @Test(arguments: [false, true])
    func `an asker that takes no replies does not hold up the others`(_ usesRights: Bool) throws {
        let server =
            usesRights
            ? try Server(LocalMessagePort(requestHandler: { try? $0.replyRight?.reply(with: $0.data) }))
            : try Server { _, data in data }
        let slow = try MachPort(queueLimit: 1)
        var full = 0
        while (try? slow.sendRight.send(MachPort.Message(), before: .distantPast)) != nil { full += 1 }
        let channel = server.port.sendRight.channel
        // No number that a request of this process really has.
        let first = UInt64.max / 2
        // More than 16 MiB: a hundred of them wait, and no more.
        let data = [UInt8](repeating: 1, count: 200 << 10)
        for number in 0..<150 as Range<UInt64> {
            let request = MachPort.Message(id: 1, [.bytes(data)], replyPort: slow.sendRight)
            var message = try MessageEncoding.outgoing(request, kind: .request, request: first + number, to: channel)
            try channel.send(&message, before: .patience)
        }
        #expect(try server.remote.request(id: 2, [7], timeout: .seconds(20)) == [7])
        // As many as may wait have done so.
        #expect(waitUntil { slow.sendRight.channel.waiterCount == 100 })
        let answers = Shared<[UInt64]>([])
        for _ in 0..<full { _ = try slow.receive(before: .patience) }
        slow.receiver.setHandlers(.init { message in answers.withLock { $0.append(message.header.request) } })
        let thread = try RunLoopThread()
        try slow.schedule(in: thread.loop)
        #expect(waitUntil { answers.withLock { $0.count } == 100 })
        #expect(answers.withLock { $0 } == Array(first..<first + 100))
        server.thread.stop()
        thread.stop()
    }

    @Test func `an asker that is stopped gets its reply when it goes on, or is forgotten when it ends`() throws {
        let stopped = Shared<[Int32]>([])
        let port = try LocalMessagePort(name: "test", nameServer: sandbox.names) { _, data in
            guard let data, data.count == 4 else { return data }
            let pid = data.withUnsafeBytes { $0.loadUnaligned(as: Int32.self) }
            Child.stop(pid)
            stopped.withLock { $0.append(pid) }
            return data
        }
        let server = try Server(port)
        let (patient, doomed) = (Child("ask", in: sandbox), Child("ask", in: sandbox))
        #expect(waitUntil { stopped.withLock { $0.count } == 2 })
        #expect(try server.remote.request(id: 2, [7], timeout: .seconds(20)) == [7])
        doomed.kill()
        patient.signal(SIGCONT)
        #expect(patient.wait() == 0)
        #expect(try server.remote.request(id: 2, [8], timeout: .seconds(20)) == [8])
    }

    @Test func `a task may answer`() async throws {
        let port = try LocalMessagePort(requestHandler: { request in
            Task { try request.replyRight?.reply(with: request.data) }
        })
        let server = try Server(port)
        let remote = server.remote
        #expect(try await remote.request(id: 1, [1, 2]) == [1, 2])
        server.thread.stop()
    }

    // MARK: Renaming

    @Test func `a port that is renamed is found by its new name alone, and goes on serving`() throws {
        let server = try LocalMessagePort(name: "old", nameServer: sandbox.names) { _, data in data }
        let thread = try RunLoopThread()
        try server.schedule(in: thread.loop)
        let remote = try RemoteMessagePort(name: "old", nameServer: sandbox.names, before: .patience)
        try server.rename(to: "new")
        #expect(server.name == "new")
        #expect(remote.name == "old")
        #expect(errorKind { _ = try RemoteMessagePort(name: "old", nameServer: sandbox.names) } == "nameNotFound")
        let renamed = try RemoteMessagePort(name: "new", nameServer: sandbox.names, before: .patience)
        #expect(renamed.sendRight == remote.sendRight)
        #expect(try remote.request(id: 1, [1]) == [1])
        #expect(try renamed.request(id: 1, [2]) == [2])
        try server.rename(to: "new")
        try server.rename(to: nil)
        #expect(server.name == nil)
        #expect(errorKind { _ = try RemoteMessagePort(name: "new", nameServer: sandbox.names) } == "nameNotFound")
        try server.rename(to: "old")
        #expect(try RemoteMessagePort(name: "old", nameServer: sandbox.names).request(id: 1, [3]) == [3])
        server.invalidate()
        #expect(try sandbox.names.names() == [])
        thread.stop()
    }

    @Test func `a name that is taken, or none at all, leaves the old one`() throws {
        let desk = try Desk(sandbox)
        let child = Child("hold", "theirs", in: sandbox)
        #expect(waitUntil { ((try? sandbox.names.names()) ?? []).contains("theirs") })
        let other = try LocalMessagePort(name: "other", nameServer: sandbox.names) { _, _ in nil }
        let server = try LocalMessagePort(name: "mine", nameServer: sandbox.names) { _, data in data }
        #expect(portError { try server.rename(to: "theirs") }?.port?.pid == child.pid)
        #expect(portError { try server.rename(to: "other") }?.port?.pid == getpid())
        #expect(errorKind { try server.rename(to: "") } == "badName")
        #expect(server.name == "mine")
        #expect(try RemoteMessagePort(name: "mine", nameServer: sandbox.names).sendRight == server.sendRight)
        server.invalidate()
        #expect(errorKind { try server.rename(to: "late") } == "isInvalid")
        #expect(try sandbox.names.names().sorted() == ["other", "test", "theirs"])
        withExtendedLifetime((desk, other)) {}
    }

    @Test func `a port of this process is found again by its name`() throws {
        #expect(LocalMessagePort.existing("mine", nameServer: sandbox.names) == nil)
        var server: LocalMessagePort? = try LocalMessagePort(name: "mine", nameServer: sandbox.names) { _, _ in nil }
        #expect(LocalMessagePort.existing("mine", nameServer: sandbox.names) === server)
        #expect(LocalMessagePort.existing("mine") == nil)
        try server?.rename(to: "other")
        #expect(LocalMessagePort.existing("mine", nameServer: sandbox.names) == nil)
        #expect(LocalMessagePort.existing("other", nameServer: sandbox.names) === server)
        server?.invalidate()
        #expect(LocalMessagePort.existing("other", nameServer: sandbox.names) == nil)
        server = try LocalMessagePort(name: "other", nameServer: sandbox.names) { _, _ in nil }
        #expect(LocalMessagePort.existing("other", nameServer: sandbox.names) === server)
        server = nil
        #expect(LocalMessagePort.existing("other", nameServer: sandbox.names) == nil)
    }

    @Test func `a request larger than the port takes is refused at the asker`() throws {
        let port = try LocalMessagePort(queueLimit: 3, messageLimit: 1000) { _, data in data }
        let remote = RemoteMessagePort(port.sendRight)
        #expect(errorKind { _ = try remote.request(id: 1, Array(repeating: 0, count: 1000)) } == "messageTooLarge")
        #expect(errorKind { while true { try remote.send(id: 1, timeout: .zero) } } == "sendTimedOut")
        port.invalidate()
    }

    @Test func `threads that rename at once leave one name`() throws {
        let server = try LocalMessagePort(name: "start", nameServer: sandbox.names) { _, data in data }
        let threads = (0..<4).map { thread in
            Helper { errorKind { for number in 0..<25 { try server.rename(to: "name \(thread) \(number)") } } }
        }
        for thread in threads { #expect(thread.value() == "none") }
        #expect(try sandbox.names.names() == [server.name])
    }
}
