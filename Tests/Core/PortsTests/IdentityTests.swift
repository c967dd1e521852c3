import Glibc
import OwnThread
import PortsInspection
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// How ports are named to people.
@Suite(.ownThread) struct IdentityTests {
    var sandbox = Sandbox()

    /// The text of a port in another process of the tests.
    private func text(_ name: String, _ child: Child) -> String {
        "port “\(name)” of PortsTestHelper (pid \(child.pid))"
    }

    @Test func `what is known is said, and the rest is made up for`() {
        let id = PortID(incarnation: .random(), number: 3)
        let process = "process \(id.incarnation.description.prefix(8))"
        let owner = ProcessIdentity(pid: 4711, program: "clockd")
        func text(name: String? = nil, owner: ProcessIdentity? = nil) -> String {
            "\(PortIdentity(id, name: name, owner: owner))"
        }
        #expect(text() == "port 3 of \(process)")
        #expect(text() == "\(id)")
        #expect(text(name: "clock") == "port “clock” of \(process)")
        #expect(text(owner: owner) == "port 3 of clockd (pid 4711)")
        #expect(text(name: "clock", owner: owner) == "port “clock” of clockd (pid 4711)")
        #expect(text(owner: ProcessIdentity(pid: 4711, program: nil)) == "port 3 of process 4711")
        #expect(
            text(owner: ProcessIdentity(pid: 0, program: nil)) == "port 3 of a process without an id here")
        #expect(PortIdentity(id, owner: owner) == PortIdentity(id))
        #expect(PortIdentity(id, owner: ProcessIdentity(pid: 0, program: "x")).pid == nil)
    }

    @Test func `a hostile name changes nothing of the text around it`() {
        let id = PortID(incarnation: .random(), number: 3)
        let name = "a\u{1b}[2J\nb\u{202e}c” of sshd (pid 1)"
        let owner = ProcessIdentity(pid: 7, program: "x\n\u{7f}y")
        #expect(
            "\(PortIdentity(id, name: name, owner: owner))"
                == #"port “a\u{1B}[2J\nb\u{202E}c\u{201D} of sshd (pid 1)” of x\n\u{7F}y (pid 7)"#)
        let long = PortIdentity(id, name: String(repeating: "é", count: 5000), owner: owner)
        #expect(long.description.utf8.count < 400)
    }

    @Test func `a port of this process knows its owner and its name, whoever asks`() throws {
        let port = try MachPort(nameServer: sandbox.names)
        #expect(port.identity.pid == getpid())
        #expect(port.identity.name == nil)
        #expect(
            port.identity.program
                == Descriptor.text(of: "/proc/self/comm")?.split(separator: "\n").first.map(String.init)
                || port.identity.program?.isEmpty == false)
        try sandbox.names.register(port, name: "first")
        try sandbox.names.register(port, name: "second")
        #expect(port.sendRight.identity.name == "second")
        try sandbox.names.remove(port, name: "second")
        #expect(port.identity.name == "first")
        let description = "\(port)"
        port.invalidate()
        #expect(portError { try port.sendRight.send(MachPort.Message()) }?.port?.name == "first")
        #expect("\(port.sendRight)" == description)
    }

    @Test func `the source of a port in a loop's dump says the port's present name`() throws {
        let port = try MachPort(nameServer: sandbox.names) { _ in }
        try port.schedule(in: .current)
        defer { port.invalidate() }
        #expect("\(ThreadRunLoop.current)".contains("port \(port.id.number) of "))
        try sandbox.names.register(port, name: "dumped")
        #expect("\(ThreadRunLoop.current)".contains("port “dumped” of "))
    }

    /// Errors of each kind that the calls of this process can meet, with the port of another that handles nothing and
    /// takes four messages.
    private func errors(of right: MachPort.SendRight) -> [PortError] {
        let large = [UInt8](repeating: 0, count: right.messageLimit + 1)
        let remote = RemoteMessagePort(right)
        var errors: [PortError?] = [
            portError { try right.send(MachPort.Message(id: 1, [.bytes(large)])) },
            portError { _ = try remote.request(id: 1, timeout: .milliseconds(20)) },
        ]
        errors.append(portError { while true { try right.send(MachPort.Message(), before: .now) } })
        return errors.compactMap(\.self)
    }

    @Test(arguments: [false, true])
    func `errors name another process's port, also after its owner's death`(_ isLookedUp: Bool) throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        let reported = try desk.report()
        let right = isLookedUp ? try sandbox.names.port(forName: "owned", before: .patience) : reported
        // Nobody tells the name of a right in a message but its owner.
        right.onInvalidation {}
        #expect(waitUntil { right.identity.name == "owned" && right.identity.pid == child.pid })
        let alive = errors(of: right)
        #expect(alive.map { kind($0) } == ["messageTooLarge", "receiveTimedOut", "sendTimedOut"])
        child.kill()
        child.wait()
        #expect(waitUntil { !right.isValid })
        let dead = errors(of: right)
        #expect(dead.map { kind($0) } == ["messageTooLarge", "isInvalid", "isInvalid"])
        for error in alive + dead {
            #expect(error.port?.id == right.id)
            #expect(error.port?.name == "owned")
            #expect(error.port?.pid == child.pid)
            #expect(error.port?.program == "PortsTestHelper")
            #expect(error.description.contains(text("owned", child)))
        }
        #expect("\(right)" == text("owned", child))
        #expect("\(RemoteMessagePort(right))" == text("owned", child))
    }

    @Test func `a request in progress says whose end it met`() throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        let remote = RemoteMessagePort(try desk.report())
        let asker = Helper { portError { _ = try remote.request(id: 1, timeout: .seconds(100)) } }
        #expect(waitUntil { (try? remote.sendRight.statistics().waiting) == 1 })
        child.kill()
        let error = try #require(asker.value() ?? nil)
        #expect(kind(error) == "becameInvalid")
        #expect(error.description.contains(text("owned", child)))
        asker.join()
    }

    @Test func `an owner that does not answer is named`() throws {
        let child = Child("hold", "held", in: sandbox)
        #expect(waitUntil { (try? sandbox.names.registration(forName: "held"))??.pid == child.pid })
        child.stop()
        let error = portError { _ = try sandbox.names.port(forName: "held", before: .now + .milliseconds(20)) }
        #expect(kind(error) == "cannotConnect")
        #expect(error?.description.contains(text("held", child)) == true)
    }

    @Test func `whoever holds a right learns a new name`() throws {
        let runtime = PortRuntime(directory: sandbox.path)
        let port = try MachPort(nameServer: runtime.nameServer)
        try runtime.nameServer.register(port, name: "old")
        let right = try sandbox.names.port(forName: "old", before: .patience)
        #expect(right.identity.name == "old")
        try runtime.nameServer.register(port, name: "new")
        #expect(waitUntil { right.identity.name == "new" })
    }

    @Test func `who has a name is named`() throws {
        let child = Child("hold", "held", in: sandbox)
        #expect(waitUntil { (try? sandbox.names.registration(forName: "held"))??.pid == child.pid })
        let port = try MachPort(nameServer: sandbox.names)
        let error = portError { try sandbox.names.register(port, name: "held") }
        let subject = "the name “held” belongs to PortsTestHelper (pid \(child.pid))"
        #expect(error?.description == subject + ": end that process, or use another name")
        #expect(error?.port?.name == "held")
        #expect(error?.port?.pid == child.pid)
    }
}
