import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Registry directories that move, or that somebody removes, while runtimes use them.
@Suite(.ownThread) struct MovedDirectoryTests {
    let sandbox = Sandbox()

    private func register(_ name: String, _ names: PortNameServer) throws -> MachPort {
        let port = try MachPort(nameServer: names)
        try names.register(port, name: name)
        return port
    }

    private func runtime() -> PortRuntime { PortRuntime(directory: sandbox.path) }

    /// A directory in a parent that can be moved away, and back.
    private struct Movable {
        let parent: String
        let away: String
        var path: String { "\(parent)/r" }

        init(_ sandbox: Sandbox) {
            (parent, away) = (sandbox.file("parent"), sandbox.file("away"))
            #expect(mkdir(parent, 0o700) == 0)
        }

        func moveAway() { #expect(rename(parent, away) == 0) }
        func moveBack() { #expect(rename(away, parent) == 0) }
    }

    /// Whether a runtime that has seen nothing yet finds the ports, and messages reach them.
    private func areReached(_ ports: [String: MachPort], by directory: String) throws -> Bool {
        let names = PortRuntime(directory: directory).nameServer
        return try ports.allSatisfy { name, port in
            let right = try names.port(forName: name, before: .patience)
            try right.send(MachPort.Message(id: 7), before: .patience)
            return try right == port.sendRight && port.receive(before: .patience).id == 7
        }
    }

    // MARK: Moved

    @Test func `the end of a process that does not find the directory removes nothing of live processes`() throws {
        let directory = Movable(sandbox)
        let one = PortRuntime(directory: directory.path)
        var other: PortRuntime? = PortRuntime(directory: directory.path)
        weak let released = other
        let port = try register("test", one.nameServer)
        var last: MachPort? = try register("last", try #require(other).nameServer)
        // By the descriptor, the dead are known for what they are.
        let dead = "\(Incarnation.random())"
        #expect(mkdir("\(directory.path)/\(dead)", 0o700) == 0)
        try Sandbox.leaveSocket(at: "\(directory.path)/\(dead)/c", kind: .sequencedPackets)
        directory.moveAway()
        (last, other) = (nil, nil)
        #expect(waitUntil { released == nil && access("\(directory.away)/r/\(dead)", F_OK) != 0 })
        directory.moveBack()
        #expect(try areReached(["test": port], by: directory.path))
        withExtendedLifetime((one, last)) {}
    }

    @Test func `a process that was cut off while its directory was away is called when that is back`() throws {
        let directory = Movable(sandbox)
        let (one, other) = (PortRuntime(directory: directory.path), PortRuntime(directory: directory.path))
        let port = try register("test", one.nameServer)
        let right = try other.nameServer.port(forName: "test", before: .patience)
        right.onInvalidation {}
        func connection() throws -> ControlConnection {
            try #require(try right.channel.connectToOwner(before: .patience))
        }
        directory.moveAway()
        let former = try connection()
        former.cut()
        #expect(waitUntil { !other.control.isConnected(to: one.incarnation) })
        #expect(errorKind { _ = try connection() } == "cannotConnect")
        #expect(right.isValid)
        directory.moveBack()
        #expect(waitUntil { other.control.isConnected(to: one.incarnation) })
        #expect(right.isValid)
        withExtendedLifetime(port) {}
    }

    @Test func `a process is not taken for dead when nobody here has opened the directory that was moved`() throws {
        let directory = Movable(sandbox)
        let (one, other) = (runtime(), PortRuntime(directory: directory.path))
        let port = try MachPort(nameServer: other.nameServer)
        let right = MachPort.SendRight(one.channels.channel(to: try port.receiver.exposure.exposedRight()))
        directory.moveAway()
        #expect(errorKind { try right.channel.connectToOwner(before: .patience) } == "cannotConnect")
        #expect(right.isValid)
        directory.moveBack()
        try right.send(MachPort.Message(id: 7), before: .patience)
        #expect(try port.receive(before: .patience).id == 7)
        withExtendedLifetime(one) {}
    }

    @Test func `the death of a process is told in a directory that nobody here has opened, and that was moved`() throws
    {
        let directory = Movable(sandbox)
        let child = Child([Child.program, "hold", "held"], environment: ["PORTS_DIRECTORY": directory.path])
        let names = PortNameServer(directory: directory.path)
        let found = try names.waitForPort(forName: "held", before: .patience)
        let wire = found.channel.right
        let one = runtime()
        let right = MachPort.SendRight(one.channels.channel(to: wire))
        let told = Latch()
        right.onInvalidation { told.open() }
        try right.channel.connectToOwner(before: .patience)
        directory.moveAway()
        child.kill()
        #expect(told.wait(until: .patience))
        #expect(!right.isValid)
        withExtendedLifetime(one) {}
    }

    @Test func `a directory whose path goes stale is used by another path`() throws {
        let (real, link) = (sandbox.file("real"), sandbox.file("link"))
        #expect(mkdir(real, 0o700) == 0)
        #expect(symlink(real, link) == 0)
        let one = PortRuntime(directory: "\(link)/r")
        let first = try register("first", one.nameServer)
        #expect(unlink(link) == 0)
        let second = try register("second", PortNameServer(directory: "\(real)/r", runtime: one))
        #expect(try areReached(["first": first, "second": second], by: "\(real)/r"))
    }

    @Test func `a directory that was away, and another in its place for a while, is used again`() throws {
        let directory = Movable(sandbox)
        let one = PortRuntime(directory: directory.path)
        var ports = ["first": try register("first", one.nameServer)]
        directory.moveAway()
        #expect(mkdir(directory.parent, 0o700) == 0)
        ports["second"] = try register("second", one.nameServer)
        #expect(try areReached(ports, by: directory.path))
        sandbox.remove(directory.parent)
        directory.moveBack()
        ports["third"] = try register("third", one.nameServer)
        #expect(try areReached(ports, by: directory.path))
    }

    /// The owner makes its sockets in the directory in between, and does not use the registry afterwards.
    @Test func `a port is connected to in a directory that is back in its place`() throws {
        let directory = Movable(sandbox)
        let port = try register("test", PortRuntime(directory: directory.path).nameServer)
        let sending = PortRuntime(directory: directory.path, sharedMemory: .never)
        let right = try sending.nameServer.port(forName: "test", before: .patience)
        try right.channel.connectToOwner(before: .patience)
        directory.moveAway()
        #expect(mkdir(directory.parent, 0o700) == 0)
        _ = try port.receiver.exposure.directoryOfSocket()
        sandbox.remove(directory.parent)
        directory.moveBack()
        try right.send(MachPort.Message(id: 3), before: .patience)
        #expect(try port.receive(before: .patience).id == 3)
    }

    // MARK: Removed

    @Test func `a port without a name is reached when its directory was removed and made again`() throws {
        let (one, other) = (runtime(), runtime())
        let inbox = try register("inbox", other.nameServer)
        let right = try one.nameServer.port(forName: "inbox", before: .patience)
        let port = try MachPort(nameServer: one.nameServer)
        func hand() throws -> MachPort.SendRight? {
            try right.send(MachPort.Message([.port(port.sendRight)]), before: .patience)
            guard case .port(let right)? = try inbox.receive(before: .patience).components.first else { return nil }
            return right
        }
        _ = try hand()
        try sandbox.remake()
        let socket = sandbox.file("\(one.incarnation)/\(port.id.number)")
        #expect(
            try waitUntil {
                _ = try hand()
                return access(socket, F_OK) == 0
            })
        try #require(try hand()).send(MachPort.Message(id: 3), before: .patience)
        #expect(try port.receive(before: .patience).id == 3)
    }

    @Test func `requests are answered in a directory that was removed and made again`() throws {
        let thread = try RunLoopThread()
        defer { thread.stop() }
        let (one, other, third) = (runtime(), runtime(), runtime())
        func serve(_ name: String, _ runtime: PortRuntime) throws -> LocalMessagePort {
            let server = try LocalMessagePort(name: name, nameServer: runtime.nameServer) { _, data in data }
            try server.schedule(in: thread.loop)
            return server
        }
        func ask(_ name: String) throws -> [UInt8]? {
            try RemoteMessagePort(name: name, nameServer: one.nameServer, before: .patience).request(id: 1, [1])
        }
        let first = try serve("first", other)
        #expect(try ask("first") == [1])
        try sandbox.remake()
        let second = try serve("second", third)
        #expect(try ask("second") == [1])
        withExtendedLifetime((first, second)) {}
    }

    /// The directory in which the process has never been shows nothing of its end.
    @Test(arguments: [false, true])
    func `a process that was cut off while its directory was removed is not dead`(_ isMadeAgain: Bool) throws {
        let (one, other, third) = (runtime(), runtime(), runtime())
        let port = try MachPort(nameServer: one.nameServer)
        let right = MachPort.SendRight(other.channels.channel(to: try port.receiver.exposure.exposedRight()))
        let isTold = Shared(false)
        right.onInvalidation { isTold.withLock { $0 = true } }
        let connection = try #require(try right.channel.connectToOwner(before: .patience))
        sandbox.remove(sandbox.path)
        var another: MachPort?
        if isMadeAgain {
            another = try register("another", third.nameServer)
            _ = try other.nameServer.port(forName: "another", before: .patience)
        }
        connection.cut()
        #expect(waitUntil { !other.control.isConnected(to: one.incarnation) })
        #expect(errorKind { _ = try right.channel.connectToOwner(before: .patience) } == "cannotConnect")
        #expect(!isTold.withLock { $0 })
        _ = try port.receiver.exposure.exposedRight()
        try right.send(MachPort.Message(id: 1), before: .patience)
        #expect(try port.receive(before: .patience).id == 1)
        withExtendedLifetime(another) {}
    }

    @Test func `a process whose own folder was removed makes it anew with what it needs`() throws {
        let one = runtime()
        var ports = ["before": try register("before", one.nameServer)]
        let folder = sandbox.file("\(one.incarnation)")
        sandbox.remove(folder)
        ports["after"] = try register("after", one.nameServer)
        #expect(try areReached(ports, by: sandbox.path))
        // A sweep uses this when the process is killed.
        for (name, port) in ports { #expect(access("\(folder)/\(port.id.number).\(name)", F_OK) == 0) }
    }
}
