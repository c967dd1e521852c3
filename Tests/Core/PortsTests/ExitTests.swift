import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Processes that end with messages on their way.
@Suite(.ownThread) struct ExitTests {
    static let ways = ["exit", "return", "thread", "callout", "signal"]

    @Test(arguments: ways) func `what was sent arrives, however the process ends`(_ way: String) throws {
        let sandbox = Sandbox(sharedMemory: .never)
        for _ in 0..<Scale.count(2, long: 40) { try Self.leave(way, sandbox) }
        Scale.show("\(way): all messages arrived, \(Scale.count(2, long: 40)) times")
    }

    @Test(.enabled(if: Sandbox.hasRings), arguments: ways + ["kill"])
    func `what was sent by a ring stays, however the process ends`(_ way: String) throws {
        let sandbox = Sandbox()
        for _ in 0..<Scale.count(2, long: 40) {
            let desk = try Desk(sandbox, queueLimit: 100)
            let count = 100 as UInt32
            let child = Child("leave", way, "\(count)", "0", in: sandbox)
            let status = child.wait()
            if way != "kill" { #expect(status == (way == "return" ? 0 : 3)) }
            // Nothing is left of the process but what it has sent.
            for number in 0..<count { #expect(try desk.port.receive(before: .patience).id == number) }
            #expect(errorKind { _ = try desk.port.receive(before: .distantPast) } == "receiveTimedOut")
            unlink(sandbox.file("leaving"))
            desk.port.invalidate()
        }
    }

    static func leave(_ way: String, _ sandbox: Sandbox) throws {
        let desk = try Desk(sandbox, queueLimit: 100)
        // More than one queue holds.
        let count = 180 as UInt32
        let child = Child("leave", way, "\(count)", "30000", in: sandbox)
        #expect(waitUntil { access(sandbox.file("leaving"), F_OK) == 0 })
        for number in 0..<count {
            let message = try desk.port.receive(before: .patience)
            guard message.id == number, message.bytes?.count == 1000 else {
                Streams.losses.withLock { $0 += 1 }
                Issue.record("\(message.id) came in place of \(number)")
                return
            }
        }
        #expect(child.wait() == (way == "return" ? 0 : 3))
        #expect(errorKind { _ = try desk.port.receive(before: .distantPast) } == "receiveTimedOut")
        unlink(sandbox.file("leaving"))
        // Another thread may keep it for a moment more.
        desk.port.invalidate()
    }

    @Test func `a process ends also while its threads begin to send`() {
        let sandbox = Sandbox()
        for _ in 0..<Scale.count(5, long: 200) { #expect(Child("exit-ringing", in: sandbox).wait() == 3) }
    }

    @Test func `what was sent at last arrives, although the kernel has no room for it`() throws {
        let sandbox = Sandbox(sharedMemory: .never)
        for _ in 0..<Scale.count(2, long: 40) {
            let desk = try Desk(sandbox, queueLimit: 4)
            let first = "$(taskset -cp $$ | sed 's/.*: *\\([0-9]*\\).*/\\1/')"
            let child = Child(
                "leave-full", in: sandbox, wrapper: ["/bin/sh", "-c", "exec taskset -c \(first) \"$@\"", "sh"])
            #expect(waitUntil { access(sandbox.file("leaving"), F_OK) == 0 })
            // The child must not close the connection before there is room.
            Self.waitsAWhile(child)
            var next = 0 as UInt32
            var isLast = false
            while !isLast {
                let message = try desk.port.receive(before: .patience)
                #expect(message.id == next)
                next += 1
                isLast = message.bytes?.isEmpty == false
            }
            #expect(child.wait() == 0)
            unlink(sandbox.file("leaving"))
            desk.port.invalidate()
        }
    }

    /// Gives a process time to go wrong at its exit: it has waited fifty times more, or has ended.
    private static func waitsAWhile(_ child: Child) {
        func count() -> Int { waitCount(of: "/proc/\(child.pid)") ?? 0 }
        let aim = count() + 50
        waitUntil(before: .now + .seconds(10)) { count() >= aim || !child.isRunning }
    }

    @Test(arguments: geteuid() == 0 ? ["descriptors", "proc"] : ["descriptors"])
    func `what was sent arrives, whatever the process lacks at its end`(_ lacking: String) throws {
        let sandbox = Sandbox(sharedMemory: .never)
        // More connections than the library keeps descriptors for.
        let ports = try (0..<20).map { _ in try MachPort(queueLimit: 4, nameServer: sandbox.names) }
        for (number, port) in ports.enumerated() { try sandbox.names.register(port, name: "port \(number)") }
        // More than a queue holds.
        let count = 40 as UInt32
        let child = Child("leave-bare", lacking, "\(ports.count)", "\(count)", in: sandbox)
        #expect(waitUntil { access(sandbox.file("leaving"), F_OK) == 0 })
        // The child must not close the connections before all is read.
        Self.waitsAWhile(child)
        for port in ports {
            for number in 0..<count { #expect(try port.receive(before: .patience).id == number) }
        }
        #expect(child.wait() == 3)
    }

    @Test func `a process that waits for its messages to leave handles no more messages`() throws {
        let sandbox = Sandbox(sharedMemory: .never)
        let desk = try Desk(sandbox, queueLimit: 4)
        let count = 40 as UInt32
        let child = Child("leave-serving", "\(count)", in: sandbox)
        let right = try desk.report()
        let path = "\(right.channel.path)/\(right.id.incarnation)/\(right.id.number)"
        // The port is gone, although the messages are not read yet.
        #expect(waitUntil { LocalSocket.listening(at: path, kind: .stream) != .somebody })
        #expect(child.isRunning)
        for number in 0..<count { #expect(try desk.port.receive(before: .patience).id == number) }
        #expect(child.wait() == 3)
    }

    @Test(arguments: ways) func `a process whose messages nobody reads ends at its bound`(_ way: String) throws {
        let sandbox = Sandbox(sharedMemory: .never)
        var late = Times()
        for _ in 0..<Scale.count(1, long: 20) {
            let desk = try Desk(sandbox, queueLimit: 100)
            let child = Child("leave", way, "180", "300", in: sandbox)
            #expect(waitUntil { access(sandbox.file("leaving"), F_OK) == 0 })
            let began = ContinuousClock.now
            #expect(child.wait() == (way == "return" ? 0 : 3))
            late.add(began.duration(to: .now) - .milliseconds(300))
            // A prefix.
            var next = 0 as UInt32
            // The last ones may still be in the kernel.
            while let message = try? desk.port.receive(before: next < 100 ? .patience : .distantPast) {
                #expect(message.id == next)
                next += 1
            }
            #expect(next >= 100)
            unlink(sandbox.file("leaving"))
            desk.port.invalidate()
        }
        Scale.show("\(way): ended at the bound of 300 ms and \(late.summary)")
        if Scale.isMeasured { #expect(late.percentile(100) < .seconds(1)) }
    }

    @Test func `what was sent arrives, although the process has no thread to be had at its end`() {
        // Each has a user of its own, to whom the directory belongs then.
        for _ in 0..<Scale.count(2, long: 40) {
            let sandbox = Sandbox()
            let child = Child("leave-without-threads", in: sandbox)
            withExtendedLifetime(sandbox) { #expect(child.wait() == 0) }
        }
    }

    @Test(arguments: ["right", "handler", "invalidate"])
    func `a reply arrives although its process or its port ends right after it`(_ way: String) throws {
        let sandbox = Sandbox()
        for _ in 0..<Scale.count(3, long: 40) {
            let desk = try Desk(sandbox)
            let child = Child("answer", way, in: sandbox)
            let server = RemoteMessagePort(try desk.report())
            #expect(try server.request(id: 1, [5]) == [5])
            if way != "invalidate" { #expect(child.wait() == 0) }
            desk.port.invalidate()
        }
    }
}
