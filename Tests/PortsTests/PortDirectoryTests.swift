import Foundation
import Glibc
import OwnThread
import RunLoops
import Testing

@testable import Ports

@Suite(.ownThread) struct PortDirectoryTests {
    let sandbox = Sandbox()

    private func error(at path: String) -> PortError? { portError { _ = try PortDirectory(path) } }

    private func register(_ name: String) throws -> MachPort {
        let port = try MachPort(nameServer: sandbox.names)
        try sandbox.names.register(port, name: name)
        return port
    }

    @Test func `a directory whose parent exists is made, and closed to others`() throws {
        let path = sandbox.file("made")
        _ = try PortDirectory(path + "//")
        var status = stat()
        #expect(lstat(path, &status) == 0 && status.st_mode & 0o777 == 0o700)
    }

    @Test func `a missing parent is an error`() {
        let path = sandbox.file("missing/made")
        #expect(error(at: path) == .directory(path, call: "mkdir", errno: ENOENT))
    }

    @Test func `a path that does not begin with a slash is an error`() {
        #expect(kind(error(at: "relative")) == "untrustedDirectory")
        #expect(kind(error(at: "")) == "untrustedDirectory")
    }

    @Test func `a symbolic link is not trusted`() throws {
        #expect(symlink(sandbox.path, sandbox.file("link")) == 0)
        #expect(kind(error(at: sandbox.file("link"))) == "untrustedDirectory")
    }

    @Test(arguments: [0o755, 0o770, 0o701, 0o777] as [mode_t])
    func `a directory that others may use is not trusted`(_ mode: mode_t) {
        chmod(sandbox.path, mode)
        #expect(kind(error(at: sandbox.path)) == "untrustedDirectory")
        #expect(errorKind { _ = try register("x") } == "untrustedDirectory")
    }

    @Test func `a plain file is no directory`() throws {
        try sandbox.write("x", to: "plain")
        #expect(kind(error(at: sandbox.file("plain"))) == "untrustedDirectory")
    }

    @Test func `a directory that is opened to others later is not used any more`() throws {
        _ = try PortDirectory(sandbox.path)
        chmod(sandbox.path, 0o777)
        #expect(errorKind { _ = try register("x") } == "untrustedDirectory")
    }

    @Test func `a path that is too long for a socket says so`() throws {
        let folder = sandbox.file(String(repeating: "d", count: 80))
        let names = PortNameServer(directory: folder)
        let port = try MachPort(nameServer: names)
        #expect(errorKind { try names.register(port, name: "x") } == "pathTooLong")
        #expect(port.isValid)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == [])
    }

    @Test func `what is planted under a name neither blocks nor is followed`() throws {
        let file = sandbox.file(try NameEntry.fileName(for: "planted"))
        try sandbox.write("secret", to: "target")
        let planters: [() -> Int32] = [
            { mkfifo(file, 0o600) }, { symlink(sandbox.file("target"), file) }, { mkdir(file, 0o700) },
            { creat(file, 0o600) },
        ]
        for plant in planters {
            #expect(plant() >= 0)
            let lookup = errorKind { _ = try sandbox.names.port(forName: "planted") }
            #expect(["untrustedDirectory", "directory"].contains(lookup))
            #expect(["untrustedDirectory", "directory"].contains(errorKind { _ = try register("planted") }))
            let names = try sandbox.names.names()
            #expect(!names.contains("planted"))
            _ = Glibc.remove(file)
        }
        #expect(try sandbox.names.names() == [])
        let port = try register("planted")
        #expect(try sandbox.names.port(forName: "planted") == port.sendRight)
    }

    @Test func `an entry under another name's file is not that name's`() throws {
        let port = try register("mine")
        let mine = sandbox.file(try NameEntry.fileName(for: "mine"))
        let other = sandbox.file(try NameEntry.fileName(for: "other"))
        #expect(link(mine, other) == 0)
        #expect(errorKind { _ = try sandbox.names.port(forName: "other") } == "nameNotFound")
        withExtendedLifetime(port) {}
    }

    @Test func `what dead processes have left is swept, and nothing outside`() throws {
        let dead = Incarnation.random()
        let right = WireRight(id: PortID(incarnation: dead, number: 3), queueLimit: 1, limit: 1, path: sandbox.path)
        let entry = NameEntry(name: "dead", right: right)
        try sandbox.write(String(decoding: entry.bytes, as: UTF8.self), to: try NameEntry.fileName(for: "dead"))
        mkdir(sandbox.file("\(dead)"), 0o700)
        for file in ["c", "1", "2"] {
            close(try LocalSocket.listen(at: sandbox.file("\(dead)/\(file)"), kind: .stream))
        }
        try sandbox.write("half an entry", to: "t.\(dead)")
        // A link in a dead process's place must not lead the sweep elsewhere.
        let elsewhere = Sandbox()
        try elsewhere.write("dear", to: "kept")
        let link = "\(Incarnation.random())"
        symlink(elsewhere.path, sandbox.file(link))

        let port = try register("alive")
        #expect(elsewhere.files == ["kept"])
        let own = "\(PortProcess.current.incarnation)"
        #expect(sandbox.files == [own, link, try NameEntry.fileName(for: "alive")].sorted())
        #expect(try sandbox.names.names() == ["alive"])
        withExtendedLifetime(port) {}
    }

    @Test func `files that only look like ours survive the sweep`() throws {
        let (digest, folder) = ("\(Incarnation.random())", "\(Incarnation.random())")
        mkdir(sandbox.file(folder), 0o700)
        let kept = ["notes.txt", "n.txt", "t.txt", "t.swift", digest, "\(folder)/c", "\(folder)/1"]
        for file in kept { try sandbox.write("not ours", to: file) }
        let port = try register("alive")
        for file in kept { #expect(access(sandbox.file(file), F_OK) == 0, "\(file)") }
        withExtendedLifetime(port) {}
    }

    @Test func `a name that an invalid port of ours could not give up is free`() throws {
        var port: MachPort? = try register("kept")
        // As if another process had held the lock for too long when the port went.
        let file = sandbox.file(try NameEntry.fileName(for: "kept"))
        let entry = try String(contentsOfFile: file, encoding: .utf8)
        #expect(errorKind { _ = try register("kept") } == "nameInUse")
        port = nil
        try sandbox.write(entry, to: try NameEntry.fileName(for: "kept"))
        port = try register("kept")
        #expect(try sandbox.names.port(forName: "kept") == port?.sendRight)
    }

    @Test func `two spellings of a path are one directory`() throws {
        let port = try register("first")
        let again = PortNameServer(directory: sandbox.path + "//")
        let other = try MachPort(nameServer: again)
        try again.register(other, name: "second")
        #expect(Set(try sandbox.names.names()) == ["first", "second"])
        #expect(try again.port(forName: "first") == port.sendRight)
    }

    @Test func `an invalid port leaves nothing but its process's own folder`() throws {
        var port: MachPort? = try register("first")
        try sandbox.names.register(try #require(port), name: "second")
        #expect(Set(try sandbox.names.names()) == ["first", "second"])
        port = nil
        #expect(sandbox.files == ["\(PortProcess.current.incarnation)"])
        #expect(access(sandbox.file("\(PortProcess.current.incarnation)/c"), F_OK) == 0)
    }

    @Test func `changes by many threads happen one after the other`() throws {
        let directory = try PortDirectory(sandbox.path)
        let (count, inside, most) = (Shared(0), Shared(0), Shared(0))
        let threads = (0..<6).map { _ in
            Helper {
                for _ in 0..<50 {
                    try? directory.withLock {
                        let now = inside.withLock { inside in
                            inside += 1
                            return inside
                        }
                        most.withLock { $0 = max($0, now) }
                        count.withLock { $0 += 1 }
                        inside.withLock { $0 -= 1 }
                    }
                }
            }
        }
        for thread in threads { #expect(thread.value() != nil) }
        #expect(count.withLock { $0 } == 300 && most.withLock { $0 } == 1)
    }

    @Test func `the lock is waited for until a deadline`() throws {
        let directory = try PortDirectory(sandbox.path)
        try directory.withLock {
            let waiting = Helper { portError { try directory.withLock(before: .now + .milliseconds(20)) {} } }
            #expect(waiting.value() == .some(.directory(sandbox.path, call: "flock", errno: EWOULDBLOCK)))
        }
        try directory.withLock(before: .now) {}
    }

    @Test func `of many threads that want one name, one gets it`() throws {
        let names = sandbox.names
        let threads = (0..<6).map { _ in
            Helper { () -> (MachPort?, String) in
                guard let port = try? MachPort(nameServer: names) else { return (nil, "no port") }
                let outcome = errorKind { try names.register(port, name: "wanted") }
                return (port, outcome)
            }
        }
        let outcomes = threads.map { $0.value() }
        #expect(
            outcomes.compactMap { $0?.1 }.sorted() == [
                "nameInUse", "nameInUse", "nameInUse", "nameInUse", "nameInUse", "none",
            ])
    }
}
