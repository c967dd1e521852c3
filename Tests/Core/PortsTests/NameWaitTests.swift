import Foundation
import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Names that come and go, while others wait for it.
@Suite(.ownThread) struct NameWaitTests {
    let sandbox = Sandbox()
    private var names: PortNameServer { sandbox.names }

    private func register(_ name: String) throws -> MachPort {
        let port = try MachPort(nameServer: names)
        try names.register(port, name: name)
        return port
    }

    private func removeEntry(_ name: String) throws { sandbox.remove(try sandbox.folder(name)) }

    private func isWatching() throws -> Bool {
        try PortRuntime.shared.registry.directory(sandbox.path).watcher.isWatching
    }

    // MARK: Coming

    @Test func `whoever waits finds a port that gives up its name and takes it again at once`() throws {
        let port = try MachPort(nameServer: sandbox.names)
        let other = PortRuntime(directory: sandbox.path)
        for round in 0..<20 {
            let name = "again \(round)"
            let waiter = Helper { try? other.nameServer.waitForPort(forName: name, before: .patience) }
            #expect(waitUntil { (try? other.nameServer.registryDirectory().watcher.isWatching) == true })
            for _ in 0..<30 {
                try sandbox.names.register(port, name: name)
                try sandbox.names.remove(port, name: name)
            }
            try sandbox.names.register(port, name: name)
            #expect(waiter.value() == port.sendRight)
        }
    }

    @Test func `a name that is there is not waited for`() throws {
        let port = try register("here")
        #expect(try names.waitForPort(forName: "here", before: .distantPast) == port.sendRight)
    }

    @Test func `a task that finds a name at once needs no inotify instance`() async throws {
        let port = try register("here")
        let other = PortRuntime(directory: sandbox.path)
        let right = try await other.nameServer.waitForPort(forName: "here", before: .patience)
        #expect(right == port.sendRight)
        #expect(try !other.nameServer.registryDirectory().watcher.isWatching)
    }

    @Test func `a name is waited for until another process has registered it`() throws {
        let desk = try Desk(sandbox)
        let waiting = (0..<3).map { _ in Helper { try? names.waitForPort(forName: "owned", before: .patience) } }
        let child = Child("own", in: sandbox)
        let right = try desk.report()
        for waiting in waiting { #expect(waiting.value() == right) }
        withExtendedLifetime(child) {}
    }

    @Test func `at the deadline nobody has the name`() throws {
        #expect(
            portError { _ = try names.waitForPort(forName: "nobody", before: .now + .milliseconds(20)) }
                == .nameNotFound("nobody", directory: sandbox.path))
        #expect(waitUntil { (try? isWatching()) == false })
    }

    @Test func `what is no name is not waited for`() {
        #expect(errorKind { _ = try names.waitForPort(forName: "") } == "badName")
        #expect(errorKind { try names.waitForEnd(ofName: "") } == "badName")
    }

    @Test func `a killed owner's entry is nobody's name`() throws {
        let desk = try Desk(sandbox)
        let first = Child("own", in: sandbox)
        _ = try desk.report()
        first.kill()
        #expect(first.wait() == -SIGKILL)
        #expect(sandbox.files.contains("names/owned"))
        try names.waitForEnd(ofName: "owned", before: .patience)
        let waiting = Helper { try? names.waitForPort(forName: "owned", before: .patience) }
        let second = Child("own", in: sandbox)
        #expect(waiting.value() == (try desk.report()))
        withExtendedLifetime(second) {}
    }

    @Test func `a task waits too, until its deadline or its end`() async throws {
        async let right = names.waitForPort(forName: "late", before: .patience)
        let port = try register("late")
        #expect(try await right == port.sendRight)
        async let end: Void = names.waitForEnd(ofName: "late", before: .patience)
        await #expect(throws: PortError.nameInUse("late", by: port.identity)) {
            try await names.waitForEnd(ofName: "late", before: .now + .milliseconds(20))
        }
        port.invalidate()
        try await end
        await #expect(throws: PortError.nameNotFound("late", directory: sandbox.path)) {
            _ = try await names.waitForPort(forName: "late", before: .now + .milliseconds(20))
        }
        let cancelled = Task { try await names.waitForPort(forName: "late") }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        #expect(await waitUntil { (try? isWatching()) == false })
    }

    // MARK: Going

    @Test func `the end of a name that nobody has is now`() throws {
        try names.waitForEnd(ofName: "nobody", before: .distantPast)
    }

    @Test func `the end of a name is waited for, until it is given up`() throws {
        let port = try register("mine")
        #expect(
            portError { try names.waitForEnd(ofName: "mine", before: .now + .milliseconds(20)) }?.port?.pid == getpid())
        let waiting = Helper { errorKind { try names.waitForEnd(ofName: "mine", before: .patience) } }
        try names.remove(port, name: "mine")
        #expect(waiting.value() == "none")
    }

    @Test func `the end of a name is waited for, until its owner is killed`() throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        _ = try desk.report()
        let waiting = (0..<3).map { _ in Helper { errorKind { try names.waitForEnd(ofName: "owned") } } }
        child.kill()
        for waiting in waiting { #expect(waiting.value() == "none") }
    }

    @Test func `the end of a name is told though another takes it at once`() throws {
        let port = try register("wanted")
        let waiting = Helper { errorKind { try names.waitForEnd(ofName: "wanted", before: .patience) } }
        // The other listener is that for the port's entry.
        #expect(waitUntil { (try? names.registryDirectory().watcher.listenerCount) == 2 })
        port.invalidate()
        let other = try register("wanted")
        #expect(waiting.value() == "none")
        withExtendedLifetime(other) {}
    }

    @Test func `whoever waits learns that the directory was removed`() throws {
        let waiting = Helper { errorKind { _ = try names.waitForPort(forName: "x", before: .patience) } }
        #expect(waitUntil { (try? isWatching()) == true })
        sandbox.remove(sandbox.path)
        #expect(waiting.value() == "directory")
    }

    @Test(arguments: ["names", "."])
    func `whoever waits learns that the directory or the folder of names was moved`(_ folder: String) throws {
        let (watch, away) = (try PortNameWatch(names), sandbox.path + ".away")
        let waiting = Helper { errorKind { _ = try names.waitForPort(forName: "x", before: .patience) } }
        let watching = Helper { errorKind { _ = try watch.next(before: .patience) } }
        let directory = try PortRuntime.shared.registry.directory(sandbox.path)
        #expect(waitUntil { directory.watcher.listenerCount == 2 })
        let moved = folder == "." ? sandbox.path : sandbox.file(folder)
        #expect(rename(moved, away) == 0)
        #expect(waiting.value() == "directory")
        #expect(watching.value() == "directory")
        try? FileManager.default.removeItem(atPath: moved)
        #expect(rename(away, moved) == 0)
        let port = try register("x")
        #expect(try names.waitForPort(forName: "x", before: .patience) == port.sendRight)
    }

    /// A world of its own for a command, where the user has no inotify instance.
    private static func withoutInstances(_ command: String) -> [String] {
        [
            "/usr/bin/unshare", "--user", "--map-root-user", "/bin/sh", "-c",
            "echo 0 >/proc/sys/user/max_inotify_instances && \(command)",
        ]
    }

    /// Whether such a world can be had on this machine.
    private static let hasWorlds = Child("", in: Sandbox(), wrapper: withoutInstances("exit 0")).wait() == 0

    @Test(.enabled(if: hasWorlds)) func `a user without an inotify instance left is told so, and may own names`() {
        let child = Child("watch", in: sandbox, wrapper: Self.withoutInstances("exec \"$0\" \"$1\""))
        #expect(child.wait() == 0)
    }

    // MARK: Both

    @Test func `a watch tells who is there, who comes and who goes`() throws {
        let desk = try Desk(sandbox)
        let watch = try PortNameWatch(names)
        func next() throws -> (String, pid_t)? {
            switch try watch.next(before: .patience) {
            case .came(let registration): ("+" + registration.name, registration.pid)
            case .went(let registration): ("-" + registration.name, registration.pid)
            case nil: nil
            }
        }
        #expect(try #require(try next()) == ("+test", getpid()))
        let child = Child("own", in: sandbox)
        #expect(try #require(try next()) == ("+owned", child.pid))
        _ = try desk.report()
        let port = try register("mine")
        #expect(try #require(try next()) == ("+mine", getpid()))
        child.kill()
        #expect(try #require(try next()) == ("-owned", child.pid))
        port.invalidate()
        #expect(try #require(try next()) == ("-mine", getpid()))
        #expect(try watch.next(before: .now + .milliseconds(20)) == nil)
    }

    @Test func `the registry says who has which name since when`() throws {
        let before = time(nil)
        let port = try MachPort(queueLimit: 7, messageLimit: 5000, nameServer: names)
        try names.register(port, name: "known")
        let registration = try #require(try names.registration(forName: "known"))
        #expect(registration.pid == getpid())
        #expect(registration.uid == geteuid())
        #expect(registration.queueLimit == 7)
        #expect(registration.messageLimit == 5000)
        // The file system's clock may be a tick behind.
        #expect(registration.since >= before - 1)
        #expect(registration.since <= time(nil))
        #expect(registration.program?.hasPrefix("/") == true)
        #expect(try names.registrations() == [registration])
        #expect(try names.registration(forName: "unknown") == nil)
    }

    @Test func `what a killed owner leaves can be swept`() throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        _ = try desk.report()
        child.kill()
        #expect(child.wait() == -SIGKILL)
        #expect(try names.names().sorted() == ["owned", "test"])
        #expect(try names.registrations().map(\.name) == ["test"])
        #expect(try names.registration(forName: "owned") == nil)
        #expect(try names.sweep() == (1, ["owned"]))
        #expect(try names.names() == ["test"])
        #expect(try names.sweep() == (0, []))
    }

    // MARK: Entries that vanish

    @Test func `an owner restores an entry that somebody removes`() throws {
        let desk = try Desk(sandbox)
        let child = Child("own", in: sandbox)
        let right = try desk.report()
        for _ in 0..<3 {
            try removeEntry("owned")
            #expect(try names.waitForPort(forName: "owned", before: .patience) == right)
        }
        #expect(rename(try sandbox.folder("owned"), sandbox.file("away")) == 0)
        #expect(try names.waitForPort(forName: "owned", before: .patience) == right)
        withExtendedLifetime(child) {}
    }

    @Test func `a name that was taken away is not taken back`() throws {
        let desk = try Desk(sandbox)
        let owner = try register("taken")
        try names.register(owner, name: "kept")
        let child = Child("own", in: sandbox)
        _ = try desk.report()
        // The child's entry, as if it had been there before anybody could restore the other.
        let entry = try #require(try PortRuntime.shared.registry.directory(sandbox.path).entry("owned"))
        let text = try String(contentsOfFile: "\(sandbox.folder("owned"))/\(entry.right.id.file)", encoding: .utf8)
        try sandbox.plant(text.replacing("name owned", with: "name taken"), as: "prepared", of: entry.right.id)
        let (prepared, taken) = (try sandbox.folder("prepared"), try sandbox.folder("taken"))
        // The owner may restore its entry in between.
        let isTaken = waitUntil {
            unlink("\(taken)/\(owner.id.file)")
            return rename(prepared, taken) == 0
        }
        #expect(isTaken)
        // Things are restored in the order in which they went.
        try removeEntry("kept")
        #expect(try names.waitForPort(forName: "kept", before: .patience) == owner.sendRight)
        #expect(try names.port(forName: "taken", before: .patience).id == entry.right.id)
        withExtendedLifetime(child) {}
    }

    @Test func `an owner restores the folder of all names`() throws {
        let port = try register("kept")
        sandbox.remove(sandbox.file("names"))
        #expect(waitUntil { sandbox.files.contains("names/kept") })
        #expect(try names.port(forName: "kept", before: .patience) == port.sendRight)
        // And guards it.
        try removeEntry("kept")
        #expect(waitUntil { sandbox.files.contains("names/kept") })
        #expect(try names.port(forName: "kept", before: .patience) == port.sendRight)
    }

    @Test func `an owner restores names whose folder somebody moves away`() throws {
        let port = try register("kept")
        #expect(rename(sandbox.file("names"), sandbox.file("away")) == 0)
        #expect(waitUntil { sandbox.files.contains("names/kept") })
        #expect(try names.port(forName: "kept", before: .patience) == port.sendRight)
    }

    @Test func `an owner guards its names again when the directory was moved away and back`() throws {
        let port = try register("kept")
        let directory = try PortRuntime.shared.registry.directory(sandbox.path)
        let away = sandbox.path + ".away"
        let waiting = Helper { errorKind { try names.waitForEnd(ofName: "kept", before: .patience) } }
        #expect(waitUntil { directory.watcher.listenerCount == 2 })
        #expect(rename(sandbox.path, away) == 0)
        #expect(waiting.value() == "directory")
        #expect(waitUntil { !directory.watcher.isWatching })
        #expect(rename(away, sandbox.path) == 0)
        #expect(waitUntil { directory.watcher.isWatching })
        try removeEntry("kept")
        #expect(try names.waitForPort(forName: "kept", before: .patience) == port.sendRight)
    }

    @Test func `a name that is given up is not restored`() throws {
        let owner = try register("kept")
        for _ in 0..<20 {
            let port = try register("given up")
            try names.remove(port, name: "given up")
        }
        try removeEntry("kept")
        #expect(try names.waitForPort(forName: "kept", before: .patience) == owner.sendRight)
        #expect(try names.names() == ["kept"])
        owner.invalidate()
        #expect(try names.names() == [])
        #expect(waitUntil { (try? isWatching()) == false })
    }
}
