import Foundation
import FoundationPorts
import OwnThread
import Ports
import TestSupport
import Testing

/// Foundation's ports between processes.
@Suite(.ownThread) struct ProcessTests {
    private let folder = TemporaryFolder()
    private var names: PortNameServer { PortNameServer(directory: folder.path) }

    private func start(_ command: String) -> Child {
        Child(["\(Child.folder)/FoundationPortsTestHelper", command], environment: ["PORTS_DIRECTORY": folder.path])
    }

    /// A port with the name "test" in the thread's loop.
    private func makePort(_ receiver: Receiver) throws -> NSMachPort {
        let own = try MachPort(nameServer: names)
        try names.register(own, name: "test")
        let port = NSMachPort(own)
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        return port
    }

    @Test func `the end of a killed owner is told once, and its next life is another port`() throws {
        var far: Port?
        var echoes = 0
        let receiver = Receiver { message in
            far = message.sendPort
            echoes += 1
        }
        let port = try makePort(receiver)
        var former: Port?
        for round in 1...3 {
            let child = start("echo")
            runLoop { echoes == round * 2 - 1 }
            let owner = try #require(far)
            #expect(owner !== former)
            #expect(owner != former)
            #expect(owner.isValid)
            #expect(MessagePortNameServer(names).port(forName: "echo") === owner)
            #expect(owner.send(7, "again", from: port))
            runLoop { echoes == round * 2 }
            let notices = Shared(0)
            let token = NotificationCenter.default.addObserver(
                forName: Port.didBecomeInvalidNotification, object: owner, queue: nil
            ) { _ in notices.withLock { $0 += 1 } }
            child.kill()
            #expect(child.wait() == -SIGKILL)
            waitUntil { notices.withLock { $0 } > 0 }
            NotificationCenter.default.removeObserver(token)
            #expect(notices.withLock { $0 } == 1)
            #expect(!owner.isValid)
            #expect(!owner.send(1))
            #expect(MessagePortNameServer(names).port(forName: "echo") == nil)
            former = owner
        }
        port.invalidate()
    }

    @Test func `of a sender that is killed, what arrives has no gap`() throws {
        var (next, isOrdered) = (0, true)
        let receiver = Receiver { message in
            let number = (message.components?.first as? Data)?.withUnsafeBytes { $0.loadUnaligned(as: Int.self) }
            if number != next { isOrdered = false }
            next += 1
        }
        let port = try makePort(receiver)
        for _ in 1...3 {
            next = 0
            let child = start("flood")
            runLoop { next >= 500 }
            child.kill()
            #expect(child.wait() == -SIGKILL)
            // Messages that were on their way.
            while RunLoop.current.run(mode: .default, before: .now + 0.1), isOrdered {
                let before = next
                _ = RunLoop.current.run(mode: .default, before: .now + 0.1)
                if next == before { break }
            }
            #expect(next >= 500)
            #expect(isOrdered)
        }
        port.invalidate()
    }

    @Test func `our loop serves the items of Foundation's main loop under an async main`() {
        let run = Run(["\(Child.folder)/FoundationAsyncMainHelper"])
        #expect(run.child.wait() == 0)
    }

    @Test func `a main loop with a port that nobody runs is told of in the log`() {
        let run = Run(["\(Child.folder)/FoundationAsyncMainHelper", "unserved"])
        #expect(
            waitUntil { String(decoding: run.errors, as: UTF8.self).contains("has a port, and nobody runs it: call") })
        run.child.kill()
    }

    @Test func `the log has the reasons that results have no room for`() {
        let run = Run(
            ["\(Child.folder)/FoundationPortsTestHelper", "failures"], environment: ["PORTS_DIRECTORY": "/dev/null"])
        #expect(run.child.wait() == 0)
        let lines = String(decoding: run.errors, as: UTF8.self)
        for text in [
            "CFMessagePortCreateRemote failed: ", "port(forName:) failed: ", "registerPort failed: ",
            "component 0 is of the type NSDate, and not Data, a port or a FileHandle",
        ] {
            #expect(lines.contains(text), "\(lines)")
        }
    }

    @Test func `ports, the main queue and timers of a main thread take turns`() throws {
        let run = Run(["\(Child.folder)/FoundationPortsTestHelper", "fair"])
        #expect(run.child.wait() == 0)
        let trace = String(decoding: run.output, as: UTF8.self).filter { !$0.isWhitespace }
        let counts = ["p", "q", "t"].map { kind in trace.count { String($0) == kind } }
        #expect(counts[0] == 300)
        #expect(counts[1] == 300)
        #expect(counts[2] >= 10)
        // As long as both have something to do, neither is passed over more than a few times.
        var longest: [Character: Int] = [:]
        var (last, length, left) = (Character(" "), 0, ["p": 300, "q": 300])
        for kind in trace where kind != "t" {
            length = kind == last ? length + 1 : 1
            last = kind
            left[String(kind), default: 0] -= 1
            if left.values.allSatisfy({ $0 > 0 }) { longest[kind] = max(longest[kind] ?? 0, length) }
        }
        #expect((longest["p"] ?? 0) <= 10, "\(longest)")
        #expect((longest["q"] ?? 0) <= 10, "\(longest)")
    }
}
