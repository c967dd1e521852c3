import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// What a message port is, where it is served, and how its end is told.
@Suite(.ownThread) struct MessagePortLifeTests {
    let sandbox = Sandbox()

    @Test func `a message port without a name is asked through its right`() throws {
        let server = try LocalMessagePort(nameServer: sandbox.names) { _, data in data }
        let thread = try RunLoopThread()
        try server.schedule(in: thread.loop)
        let remote = RemoteMessagePort(server.sendRight)
        #expect(server.name == nil)
        #expect(remote.name == nil)
        #expect(try remote.request(id: 1, [5]) == [5])
        #expect(try sandbox.names.names() == [])
        thread.stop()
    }

    @Test func `a message port is served in each of its modes, and in no other`() throws {
        let handled = Shared<[UInt32]>([])
        let server = try LocalMessagePort { id, _ in
            handled.withLock { $0.append(id) }
            return nil
        }
        let loop = ThreadRunLoop.current
        let remote = RemoteMessagePort(server.sendRight)
        for mode: ThreadRunLoop.Mode in ["a", "b"] { try server.schedule(in: loop, forMode: mode) }
        #expect(server.isScheduled(in: loop, forMode: "a"))
        #expect(server.isScheduled(in: loop, forMode: "b"))
        #expect(!server.isScheduled(in: loop))
        for (id, mode) in [(1, "a"), (2, "b")] as [(UInt32, ThreadRunLoop.Mode)] {
            try remote.send(id: id)
            #expect(try loop.runInMode(mode, seconds: 20, returnAfterSourceHandled: true) == .handledSource)
        }
        server.remove(from: loop, forMode: "a")
        try remote.send(id: 3)
        #expect(try loop.runInMode("a", seconds: 20, returnAfterSourceHandled: true) == .finished)
        #expect(handled.withLock { $0 } == [1, 2])
        #expect(try loop.runInMode("b", seconds: 20, returnAfterSourceHandled: true) == .handledSource)
        #expect(handled.withLock { $0 } == [1, 2, 3])
        server.invalidate()
        #expect(!server.isScheduled(in: loop, forMode: "b"))
    }

    @Test func `a server tells a request of no data, of no bytes and of some apart`() throws {
        let seen = Shared<[[UInt8]?]>([])
        let server = try LocalMessagePort { _, data in
            seen.withLock { $0.append(data) }
            return data
        }
        let thread = try RunLoopThread()
        try server.schedule(in: thread.loop)
        let remote = RemoteMessagePort(server.sendRight)
        for data in [nil, [], [0]] as [[UInt8]?] {
            try remote.send(id: 1, data)
            #expect(try remote.request(id: 2, data) == data)
        }
        #expect(seen.withLock { $0 } == [nil, nil, [], [], [0], [0]])
        thread.stop()
    }

    @Test func `the end of a message port is told on both sides, once, and at once to who asks late`() throws {
        let server = try LocalMessagePort { _, _ in nil }
        let remote = RemoteMessagePort(server.sendRight)
        let told = Shared<[String]>([])
        let threadOfEnd = pthread_self()
        server.onInvalidation {
            told.withLock { $0.append("local \(pthread_equal(pthread_self(), threadOfEnd) != 0)") }
        }
        remote.onInvalidation { told.withLock { $0.append("remote") } }
        #expect(server.isValid)
        #expect(remote.isValid)
        server.invalidate()
        server.invalidate()
        #expect(!server.isValid)
        #expect(!remote.isValid)
        #expect(told.withLock { $0.sorted() } == ["local true", "remote"])
        server.onInvalidation { told.withLock { $0.append("late local") } }
        remote.onInvalidation { told.withLock { $0.append("late remote") } }
        #expect(told.withLock { $0.suffix(2) } == ["late local", "late remote"])
        #expect(errorKind { try remote.send(id: 1) } == "isInvalid")
    }

    @Test func `the end of the owner's process is told to its remote port`() throws {
        let child = Child("serve", "there", in: sandbox)
        let right = try sandbox.names.waitForPort(forName: "there", before: .patience)
        let remote = try RemoteMessagePort(name: "there", nameServer: sandbox.names, before: .patience)
        #expect(remote.name == "there")
        #expect(remote.sendRight == right)
        let told = Latch()
        remote.onInvalidation { told.open() }
        child.kill()
        #expect(told.wait(until: .patience))
        #expect(!remote.isValid)
    }

    @Test func `the default name server is that of the process's directory`() throws {
        let port = try MachPort()
        let name = "default \(getpid())"
        try PortNameServer.shared.register(port, name: name)
        #expect(PortNameServer.shared.path == getenv("PORTS_DIRECTORY").map { String(cString: $0) })
        #expect(try PortNameServer.shared.port(forName: name, before: .patience) == port.sendRight)
        #expect(LocalMessagePort.existing(name) == nil)
        port.invalidate()
        #expect(errorKind { _ = try PortNameServer.shared.port(forName: name) } == "nameNotFound")
    }
}
