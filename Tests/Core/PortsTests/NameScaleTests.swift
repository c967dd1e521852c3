import CRunLoopShims
import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Many names, and processes that stop at any moment: they cost others nothing.
@Suite(.ownThread) struct NameScaleTests {
    let sandbox = Sandbox()
    private var names: PortNameServer { sandbox.names }

    // MARK: Many names

    @Test func `processes come and go beside many names without a look at each`() throws {
        let count = Scale.count(2_000, long: 50_000)
        let desk = try Desk(sandbox)
        let owner = Child("own-many", "\(count)", in: sandbox)
        _ = try desk.report()
        let helpers = (0..<20).map { number in
            Helper { () -> (status: Int32?, time: Duration) in
                let begin = ContinuousClock.now
                let child = Child("come", "visitor \(number)", in: sandbox)
                return (child.wait(before: Scale.patience), begin.duration(to: .now))
            }
        }
        let visits = helpers.compactMap { $0.value() }
        #expect(visits.map(\.status) == Array(repeating: 0, count: 20))
        var times = Times()
        times.add(visits.map(\.time))
        if Scale.isMeasured { #expect(times.percentile(100) < .milliseconds(1000)) }
        Scale.show("beside \(count) names, of 20 processes at once each came and went within \(times.summary)")
        #expect(try names.names().count == count + 1)
        owner.kill()
        #expect(owner.wait() == -SIGKILL)
        #expect(try names.sweep().names.count == count)
        #expect(try names.names() == ["test"])
    }

    @Test func `a process that comes and goes connects to each other process, not for each name`() throws {
        let incarnation = Incarnation.random()
        mkdir(sandbox.file("\(incarnation)"), 0o700)
        let listener = try LocalSocket.listen(at: sandbox.file("\(incarnation)/c"), kind: .sequencedPackets)
        defer { close(listener) }
        for number in 1...200 {
            let right = WireRight(
                id: PortID(incarnation: incarnation, number: UInt64(number)), queueLimit: 1, limit: 1,
                path: sandbox.path)
            try sandbox.plant(NameEntry(name: "name \(number)", right: right))
        }
        #expect(Child("come", "visitor", in: sandbox).wait() == 0)
        var connections = 0
        while case let caller = crl_unforked_accept(listener), caller >= 0 {
            crl_unforked_close(caller)
            connections += 1
        }
        // One when it comes, and one when it goes.
        #expect(connections <= 2)
        #expect(try names.names().count == 200)
    }

    // MARK: Stopped processes

    @Test(arguments: [drawnSeed()])
    func `a process that is stopped while it changes names holds up nobody`(_ seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let rounds = Scale.count(5, long: 200)
        var times = Times()
        func timed(_ body: () throws -> Void) rethrows {
            let begin = ContinuousClock.now
            try body()
            times.add(begin.duration(to: .now))
        }
        // Those who change names are found dead as well as stopped.
        let stopped = (0..<4).map { _ in Child("churn", in: sandbox) }
        #expect(waitUntil { sandbox.files.contains { $0.hasPrefix("names/churned") } })
        for _ in 0..<rounds {
            for child in stopped {
                // Stopped anywhere in its work.
                usleep(UInt32.random(in: 0...3_000, using: &random))
                child.stop()
            }
            let dead = Child("die-owning", "dead", in: sandbox)
            #expect(dead.wait() == -SIGKILL)
            timed { #expect(errorKind { _ = try names.port(forName: "dead") } == "nameNotFound") }
            let port = try MachPort(nameServer: names)
            for name in ["dead", "fresh"] { try timed { try names.register(port, name: name) } }
            for name in (0..<3).map({ "churned \($0)" }) {
                timed { #expect(["none", "nameInUse"].contains(errorKind { try names.register(port, name: name) })) }
            }
            timed { port.invalidate() }
            #expect(sandbox.files.allSatisfy { !["names/dead", "names/fresh"].contains($0) })
            for child in stopped { child.signal(SIGCONT) }
        }
        if Scale.isMeasured { #expect(times.percentile(100) < .seconds(2)) }
        Scale.show("beside processes that are stopped while they change names: \(times.summary)")
    }

    /// Processes that own a name each, are connected to nobody, and are stopped.
    private func stoppedOwners(_ count: Int) throws -> [Child] {
        let owners = (0..<count).map { Child("hold", "stopped \($0)", in: sandbox) }
        #expect(try waitUntil { try names.names().count { $0.hasPrefix("stopped") } == count })
        for owner in owners { owner.stop() }
        return owners
    }

    @Test func `a stopped process that has locked the directory and owns a name delays nobody`() throws {
        let holder = Child("hold", "owned", in: sandbox, wrapper: ["/usr/bin/flock", sandbox.path])
        #expect(waitUntil { sandbox.files.contains("names/owned") })
        let owner = try #require(try names.registration(forName: "owned")).pid
        defer { kill(owner, SIGKILL) }
        holder.stop()
        kill(owner, SIGSTOP)
        let folder = open(sandbox.path, O_RDONLY)
        defer { close(folder) }
        #expect(flock(folder, LOCK_SH | LOCK_NB) != 0)
        #expect(errno == EWOULDBLOCK)
        let names = names
        let caller = Helper { () -> Result<Duration, any Error> in
            Result {
                let begin = ContinuousClock.now
                let port = try MachPort(nameServer: names)
                try names.register(port, name: "mine")
                #expect(portError { try names.register(port, name: "owned") }?.port?.pid == owner)
                try names.remove(port, name: "mine")
                let local = try LocalMessagePort(name: "local", nameServer: names) { _, _ in nil }
                try local.rename(to: "other")
                #expect(try names.names().sorted() == ["other", "owned"])
                #expect(try names.registrations().count == 2)
                #expect(try names.registration(forName: "owned")?.pid == owner)
                #expect(try names.sweep() == (0, []))
                return begin.duration(to: .now)
            }
        }
        // The owner stays stopped, so who waits for it waits for ever.
        let duration = try #require(caller.value()).get()
        if Scale.isMeasured { #expect(duration < .seconds(2)) }
        withExtendedLifetime(holder) {}
    }

    @Test func `a watch waits for no stopped owner, and tells its end`() throws {
        let owners = try stoppedOwners(4)
        let watch = try PortNameWatch(names)
        let begin = ContinuousClock.now
        var came: Set<String> = []
        while let change = try watch.next(before: begin + .milliseconds(200)) {
            if case .came(let registration) = change { came.insert(registration.name) }
        }
        if Scale.isMeasured { #expect(begin.duration(to: .now) < .seconds(1)) }
        while came.count < 4, case .came(let registration)? = try watch.next(before: .patience) {
            came.insert(registration.name)
        }
        for owner in owners { owner.kill() }
        for _ in owners {
            guard case .went(let registration)? = try watch.next(before: .patience) else {
                Issue.record("no end")
                break
            }
            came.remove(registration.name)
        }
        #expect(came == [])
    }

    // MARK: Ports that are gone

    @Test func `a name whose port is gone is free, though its process lives`() throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        let live = try desk.report()
        let gone = WireRight(
            id: PortID(incarnation: live.id.incarnation, number: 999), queueLimit: 1, limit: 1,
            path: sandbox.path)
        try sandbox.plant(NameEntry(name: "kept", right: gone))
        #expect(errorKind { _ = try names.port(forName: "kept") } == "nameNotFound")
        try sandbox.plant(NameEntry(name: "kept", right: gone))
        let port = try MachPort(nameServer: names)
        try names.register(port, name: "kept")
        #expect(try names.port(forName: "kept", before: .patience) == port.sendRight)
        #expect(errorKind { try names.register(port, name: "owned") } == "nameInUse")
        withExtendedLifetime(child) {}
    }

    @Test func `a name that the file system does not let go of is given up later`() throws {
        let port = try MachPort(nameServer: names)
        try names.register(port, name: "kept")
        let entry = "\(try sandbox.folder("kept"))/\(port.id.file)"
        // The owner may restore the entry in between.
        let isMade = waitUntil {
            unlink(entry)
            return mkdir(entry, 0o700) == 0
        }
        #expect(isMade)
        port.invalidate()
        #expect(access(entry, F_OK) == 0)
        #expect(rmdir(entry) == 0)
        #expect(mkdir(sandbox.file("x"), 0o700) == 0)
        #expect(waitUntil { sandbox.files == ["\(PortRuntime.shared.incarnation)", "x"].sorted() })
    }
}
