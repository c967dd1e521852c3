import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct PortNameServerTests {
    let sandbox = Sandbox()
    private var names: PortNameServer { sandbox.names }

    private func port() throws -> MachPort { try MachPort(nameServer: names) }

    @Test(arguments: ["com.example.echo", "/", "..", "a\nb", "日本語", " ", String(repeating: "x", count: 255)])
    func `a name leads to its port`(_ name: String) throws {
        let port = try port()
        try names.register(port, name: name)
        #expect(try names.port(forName: name, before: .patience) == port.sendRight)
        #expect(try names.names() == [name])
    }

    @Test func `names that differ only in form are different`() throws {
        let (one, other) = (try port(), try port())
        try names.register(one, name: "e\u{301}")
        try names.register(other, name: "\u{e9}")
        #expect(try names.port(forName: "e\u{301}", before: .patience) == one.sendRight)
        #expect(try names.port(forName: "\u{e9}", before: .patience) == other.sendRight)
    }

    @Test(arguments: ["", "a\0", String(repeating: "x", count: 256)])
    func `what cannot be a name is refused`(_ name: String) throws {
        let port = try port()
        #expect(errorKind { try names.register(port, name: name) } == "badName")
        #expect(errorKind { _ = try names.port(forName: name) } == "badName")
    }

    @Test func `an absent name is known to be absent at once`() {
        #expect(portError { _ = try names.port(forName: "nobody") } == .nameNotFound("nobody", directory: sandbox.path))
    }

    @Test func `a name that a port of the process still has after its end is absent`() throws {
        var port: MachPort? = try port()
        try names.register(#require(port), name: "own")
        let entry = try #require(try names.registryDirectory().entry("own"))
        port = nil
        // As another thread may have read it before.
        try sandbox.plant(entry)
        #expect(errorKind { _ = try names.port(forName: "own") } == "nameNotFound")
    }

    @Test func `a port may have several names, and a name twice`() throws {
        let port = try port()
        for name in ["a", "b", "a"] { try names.register(port, name: name) }
        #expect(Set(try names.names()) == ["a", "b"])
        try names.remove(port, name: "a")
        #expect(try names.names() == ["b"])
        port.invalidate()
        #expect(try names.names() == [])
    }

    @Test func `nobody takes a live name, or gives up another's`() throws {
        let (owner, other) = (try port(), try port())
        try names.register(owner, name: "mine")
        #expect(portError { try names.register(other, name: "mine") }?.port?.pid == getpid())
        try names.remove(other, name: "mine")
        #expect(try names.port(forName: "mine", before: .patience) == owner.sendRight)
        try names.remove(owner, name: "mine")
        try names.register(other, name: "mine")
        #expect(try names.port(forName: "mine", before: .patience) == other.sendRight)
    }

    @Test func `directories are apart from each other`() throws {
        let elsewhere = Sandbox()
        let (here, there) = (try port(), try port())
        try names.register(here, name: "same")
        try elsewhere.names.register(there, name: "same")
        #expect(try names.port(forName: "same", before: .patience) == here.sendRight)
        #expect(try elsewhere.names.port(forName: "same", before: .patience) == there.sendRight)
        // Giving it up in one leaves the other to be given up with the port.
        try elsewhere.names.register(here, name: "both")
        try names.register(here, name: "both")
        try names.remove(here, name: "both")
        here.invalidate()
        #expect(try elsewhere.names.names() == ["same"])
    }

    @Test func `an entry of another version says so`() throws {
        try sandbox.plant("ports-name 9\n", as: "future")
        let lookup = portError { _ = try names.port(forName: "future") }
        #expect(kind(lookup) == "incompatibleVersion")
        #expect(lookup?.description.contains("version 9") == true)
        #expect(lookup?.description.contains("version 1") == true)
        let port = try port()
        #expect(errorKind { try names.register(port, name: "future") } == "incompatibleVersion")
    }

    @Test func `errors have CFMessagePort's codes and a sentence each`() {
        let p = PortIdentity(PortID(incarnation: .random(), number: 1))
        let errors: [(PortError, Int32)] = [
            (.sendTimedOut(port: p), -1), (.ownQueueFull(port: p), -1), (.servedOnlyHere(port: p), -2),
            (.receiveTimedOut(port: p), -2),
            (.isInvalid(port: p), -3), (.nameNotFound("n", directory: "/d"), -3), (.becameInvalid(port: p), -5),
            (.unanswered(port: p), -4), (.refused(port: p), -4), (.failed(port: p, RequestFailure("no")), -4),
            (.replyTooLarge(port: p, size: 2, limit: 1), -4), (.transport(call: "c", errno: EIO), -4),
            (.outOfDescriptors(limit: 5), -4),
        ]
        for (error, code) in errors {
            #expect(error.cfStatus == code)
            #expect(error.description.count > 10)
        }
    }

    /// A lookup that waits for a probe then looks whether the port is valid.
    @Test func `the probes of a dead owner end after its ports`() throws {
        let child = Child("hold", "owned", in: sandbox)
        let right = try sandbox.names.waitForPort(forName: "owned", before: .patience)
        right.onInvalidation {}
        child.stop()
        let (probes, wereValid) = ((0..<10).map { _ in right.channel.probeOwner() }, Shared([Bool]()))
        for probe in probes { probe.invalidated.whenSet { wereValid.withLock { $0.append(right.isValid) } } }
        child.kill()
        child.wait()
        #expect(waitUntil { wereValid.withLock { $0.count } == 10 })
        #expect(!wereValid.withLock { $0.contains(true) })
    }

    @Test func `a lookup after its owner's end finds nobody, however late the library's own thread is`() throws {
        let child = Child("hold", "owned", in: sandbox)
        let names = sandbox.names
        let right = try names.waitForPort(forName: "owned", before: .patience)
        right.onInvalidation {}
        // The right is watched, so no further question is needed.
        _ = try names.port(forName: "owned", before: .patience)
        let (isBusy, goesOn) = (Latch(), Latch())
        try names.runtime.housekeeping.perform {
            isBusy.open()
            _ = goesOn.wait(until: .patience)
        }
        #expect(isBusy.wait(until: .patience))
        child.kill()
        child.wait()
        let lookup = Helper { errorKind { _ = try names.port(forName: "owned", before: .patience) } }
        #expect(lookup.value(before: .now + .milliseconds(300)) == nil)
        goesOn.open()
        #expect(lookup.join() == "nameNotFound")
    }
}
