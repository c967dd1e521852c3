import Foundation
import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct RegistryDirectoryTests {
    let sandbox = Sandbox()

    private func error(at path: String) -> PortError? {
        portError { _ = try RegistryDirectory(path, PortRuntime.shared.registry) }
    }

    private func register(_ name: String) throws -> MachPort {
        let port = try MachPort(nameServer: sandbox.names)
        try sandbox.names.register(port, name: name)
        return port
    }

    @Test func `a directory whose parent exists is made, and closed to others`() throws {
        let path = sandbox.file("made")
        _ = try RegistryDirectory(path + "//", PortRuntime.shared.registry)
        var status = stat()
        #expect(lstat(path, &status) == 0)
        #expect(status.st_mode & 0o777 == 0o700)
    }

    @Test(arguments: ["0777", "0177"]) func `a strict umask takes nothing from the own user`(_ mask: String) throws {
        let path = sandbox.file("strict")
        let child = Child(
            ["/bin/sh", "-c", "umask \(mask); exec \"$@\"", "sh", Child.program, "hold", "x"],
            environment: ["PORTS_DIRECTORY": path])
        #expect(waitUntil { access(path + "/names/x", F_OK) == 0 })
        // The folder in which the entry was made goes after that.
        var files: [String] = []
        let isComplete = waitUntil {
            files = (try? FileManager.default.subpathsOfDirectory(atPath: path)) ?? ["new"]
            return !files.contains { $0.hasSuffix("new") }
        }
        #expect(isComplete)
        for file in files + ["."] {
            var status = stat()
            #expect(lstat("\(path)/\(file)", &status) == 0)
            let isFolder = status.st_mode & S_IFMT == S_IFDIR
            #expect(status.st_mode & 0o777 == (isFolder ? 0o700 : 0o600), "\(file)")
        }
        #expect(try PortNameServer(directory: path).port(forName: "x", before: .patience).isValid)
        withExtendedLifetime(child) {}
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
        _ = try RegistryDirectory(sandbox.path, PortRuntime.shared.registry)
        chmod(sandbox.path, 0o777)
        #expect(errorKind { _ = try register("x") } == "untrustedDirectory")
    }

    @Test func `a path that is too long for a socket says so`() throws {
        let folder = sandbox.file(String(repeating: "d", count: 80))
        let names = PortNameServer(directory: folder)
        let port = try MachPort(nameServer: names)
        #expect(errorKind { try names.register(port, name: "x") } == "pathTooLong")
        #expect(port.isValid)
        #expect(access(folder, F_OK) != 0)
    }

    /// The errors of an owner and a client with this PORTS_DIRECTORY.
    private func words(_ path: String, wrapper: [String] = []) -> [String] {
        [["come", "x"], ["ask"]].map { words in
            let run = Run(wrapper + [Child.program] + words, environment: ["PORTS_DIRECTORY": path])
            #expect(run.child.wait() == 70)
            let prefix = "helper \(words.joined(separator: " ")): "
            return String(decoding: run.errors, as: UTF8.self).replacingOccurrences(of: prefix, with: "")
        }
    }

    @Test func `owner and client name a PORTS_DIRECTORY that cannot be used, and the remedy, alike`() throws {
        try sandbox.write("x", to: "plain")
        let (long, plain) = (sandbox.file(String(repeating: "d", count: 80)), sandbox.file("plain"))
        let expected = [
            long: "the path \(long) (from PORTS_DIRECTORY) has \(long.utf8.count) bytes, and the limit for a registry "
                + "directory is 60: set PORTS_DIRECTORY to a shorter path",
            "relative": "the registry directory relative (from PORTS_DIRECTORY) cannot be trusted: its path has to "
                + "begin with /; set PORTS_DIRECTORY to such a path",
            "": "the registry directory “” (from PORTS_DIRECTORY) cannot be trusted: its path has to begin with /; set "
                + "PORTS_DIRECTORY to such a path",
            plain: "the registry directory \(plain) (from PORTS_DIRECTORY) cannot be trusted: it is no directory, or a "
                + "link to one; name the directory itself",
            sandbox.file("no/parent"): "the registry directory cannot be used: mkdir failed on "
                + "\(sandbox.file("no/parent")) (from PORTS_DIRECTORY): No such file or directory; make the parent "
                + "directory, or set PORTS_DIRECTORY",
        ]
        for (path, text) in expected { #expect(words(path) == [text + "\n", text + "\n"]) }
    }

    @Test func `owner and client name a PORTS_DIRECTORY that cannot be written to alike`() {
        let script = #"mount -t tmpfs -o ro,mode=700 none "$PORTS_DIRECTORY" && exec "$@""#
        let wrapper = ["/usr/bin/unshare", "--map-root-user", "--mount", "/bin/sh", "-c", script, "sh"]
        let text =
            "the registry directory cannot be used: mkdir failed on \(sandbox.path)/names (from PORTS_DIRECTORY): "
            + "Read-only file system; set PORTS_DIRECTORY to a directory that you may write to\n"
        #expect(words(sandbox.path, wrapper: wrapper) == [text, text])
    }

    @Test func `whoever uses a directory whose path is too long is told so first`() throws {
        let names = PortNameServer(directory: sandbox.file(String(repeating: "d", count: 80)))
        let attempts: [() throws -> Void] = [
            { _ = try names.port(forName: "x") }, { _ = try names.waitForPort(forName: "x") },
            { try names.waitForEnd(ofName: "x") }, { _ = try PortNameWatch(names) }, { _ = try names.names() },
            { _ = try names.registrations() }, { try names.sweep() },
            { try names.register(try MachPort(nameServer: names), name: "x") },
        ]
        for attempt in attempts { #expect(errorKind(attempt) == "pathTooLong") }
        // The longest path there can be works.
        let rest = String(repeating: "d", count: RegistryDirectory.longestPath - sandbox.path.utf8.count - 1)
        let longest = PortNameServer(directory: sandbox.file(rest))
        let port = try MachPort(nameServer: longest)
        try longest.register(port, name: "x")
        #expect(try longest.port(forName: "x", before: .patience) == port.sendRight)
    }

    // MARK: What a path leads to

    @Test func `a directory with several paths is one directory`() throws {
        let parent = Sandbox()
        let link = Sandbox()
        #expect(rmdir(link.path) == 0)
        #expect(symlink(parent.path, link.path) == 0)
        let spellings = ["\(parent.path)/r", "\(link.path)/r", "\(parent.path)//r", "\(parent.path)/./r/"]
        let servers = spellings.map { PortNameServer(directory: $0) }
        let ports = try servers.map { try MachPort(nameServer: $0) }
        for (index, port) in ports.enumerated() { try servers[index].register(port, name: "\(index)") }
        for names in servers {
            for (index, port) in ports.enumerated() { #expect(try names.port(forName: "\(index)") == port.sendRight) }
        }
        let server = try LocalMessagePort(name: "server", nameServer: servers[0]) { _, data in data }
        #expect(LocalMessagePort.existing("server", nameServer: servers[1]) === server)
        #expect(errorKind { try servers[1].register(ports[1], name: "server") } == "nameInUse")
    }

    @Test func `names are found in a directory that was removed and made again`() throws {
        let port = try register("before")
        let child = { Child("ask", in: self.sandbox) }
        try sandbox.remake()
        // The test's port, which has its name already, answers a process that knows the new directory only.
        let server = try LocalMessagePort(name: "test", nameServer: sandbox.names) { _, data in data }
        let thread = try RunLoopThread()
        try server.schedule(in: thread.loop)
        #expect(child().wait() == 0)
        try sandbox.remake()
        try sandbox.names.register(port, name: "after")
        #expect(child().wait() == 0)
        #expect(Set(try sandbox.names.names()) == ["before", "after", "test"])
        #expect(try sandbox.names.port(forName: "before", before: .patience) == port.sendRight)
        thread.stop()
    }

    @Test func `a name that a directory made again refuses is registered there later`() throws {
        let port = try register("refused")
        let folder = try sandbox.folder("refused")
        try sandbox.remake()
        #expect(mkdir(sandbox.file("names"), 0o700) == 0)
        #expect(close(creat(folder, 0o600)) == 0)
        #expect(try sandbox.names.names() == [])
        #expect(unlink(folder) == 0)
        #expect(waitUntil { (try? sandbox.names.port(forName: "refused")) == port.sendRight })
        port.invalidate()
        #expect(try sandbox.names.names() == [])
    }

    @Test func `nothing is written to a directory that others may use, though it was fine before`() throws {
        let port = try register("before")
        try sandbox.remake(mode: 0o777)
        #expect(chmod(sandbox.path, 0o777) == 0)
        #expect(errorKind { try sandbox.names.register(port, name: "after") } == "untrustedDirectory")
        #expect(errorKind { _ = try sandbox.names.port(forName: "before") } == "untrustedDirectory")
        #expect(sandbox.files == [])
        let other = try MachPort(nameServer: sandbox.names)
        #expect(errorKind { try sandbox.names.register(other, name: "other") } == "untrustedDirectory")
        #expect(sandbox.files == [])
    }

    @Test func `what is planted under a name neither blocks nor is followed`() throws {
        let folder = try sandbox.folder("planted")
        _ = try RegistryDirectory(sandbox.path, PortRuntime.shared.registry)
        let inner = "\(folder)/\(PortID(incarnation: .random(), number: 1).file)"
        try sandbox.write("secret", to: "target")
        let planters: [(String) -> Int32] = [
            { mkfifo($0, 0o600) }, { symlink(sandbox.file("target"), $0) }, { creat($0, 0o600) },
            { symlink(sandbox.path, $0) }, { mkdir($0, 0o700) },
        ]
        for (index, plant) in (planters.dropLast() + planters).enumerated() {
            let file = index < planters.count - 1 ? folder : inner
            #expect(file == folder || mkdir(folder, 0o700) == 0)
            #expect(plant(file) >= 0)
            let lookup = errorKind { _ = try sandbox.names.port(forName: "planted") }
            #expect(["untrustedDirectory", "directory"].contains(lookup))
            #expect(["untrustedDirectory", "directory"].contains(errorKind { _ = try register("planted") }))
            let names = try sandbox.names.names()
            #expect(!names.contains("planted"))
            _ = Glibc.remove(file)
            rmdir(folder)
        }
        #expect(try sandbox.names.names() == [])
        let port = try register("planted")
        #expect(try sandbox.names.port(forName: "planted", before: .patience) == port.sendRight)
    }

    @Test func `a name whose folder has a file that is not UTF-8 cannot be taken, and holds up no other`() throws {
        let port = try register("mine")
        let folder = try sandbox.folder("planted")
        let file: [CChar] = folder.utf8.map { CChar(bitPattern: $0) } + [0x2f, -1, 0]
        #expect(mkdir(folder, 0o700) == 0)
        #expect(close(creat(file, 0o600)) == 0)
        #expect(errorKind { try sandbox.names.register(port, name: "planted") } == "untrustedDirectory")
        #expect(errorKind { _ = try sandbox.names.port(forName: "planted") } == "nameNotFound")
        try sandbox.names.register(port, name: "other")
        #expect(unlink(file) == 0)
        try sandbox.names.register(port, name: "planted")
        #expect(Set(try sandbox.names.names()) == ["mine", "other", "planted"])
        #expect(Set(sandbox.files).isDisjoint(with: ["\(PortRuntime.shared.incarnation)/new"]))
    }

    @Test func `a port keeps a name that it is given again, and gives it up once`() throws {
        let port = try register("mine")
        try sandbox.names.register(port, name: "mine")
        #expect(port.receiver.exposure.names.count == 1)
        try sandbox.names.remove(port, name: "mine")
        #expect(try sandbox.names.names() == [])
    }

    @Test func `an entry under another name's file is not that name's`() throws {
        let port = try register("mine")
        let (mine, other) = (try sandbox.folder("mine"), try sandbox.folder("other"))
        try FileManager.default.copyItem(atPath: mine, toPath: other)
        #expect(errorKind { _ = try sandbox.names.port(forName: "other") } == "untrustedDirectory")
        #expect(try sandbox.names.registrations().map(\.name) == ["mine"])
        let mineNow = try #require(try sandbox.names.registration(forName: "mine"))
        let watch = try PortNameWatch(sandbox.names)
        #expect(try watch.next(before: .patience) == .came(mineNow))
        #expect(try watch.next(before: .now) == nil)
        #expect(rename("\(other)/\(port.id.file)", "\(other)/\(PortID(incarnation: .random(), number: 1).file)") == 0)
        #expect(errorKind { _ = try sandbox.names.port(forName: "other") } == "untrustedDirectory")
        withExtendedLifetime(port) {}
    }

    @Test func `what dead processes have left is swept, and nothing outside`() throws {
        let dead = Incarnation.random()
        let right = WireRight(id: PortID(incarnation: dead, number: 3), queueLimit: 1, limit: 1, path: sandbox.path)
        let entry = NameEntry(name: "dead", right: right)
        try sandbox.plant(entry)
        mkdir(sandbox.file("\(dead)"), 0o700)
        try sandbox.write("", to: "\(dead)/3.dead")
        mkdir(sandbox.file("\(dead)/new"), 0o700)
        try sandbox.write("half an entry", to: "\(dead)/new/\(dead).4")
        for file in ["c", "1", "2"] {
            try Sandbox.leaveSocket(at: sandbox.file("\(dead)/\(file)"), kind: .stream)
        }
        // A link in a dead process's place must not lead the sweep elsewhere.
        let elsewhere = Sandbox()
        try elsewhere.write("dear", to: "kept")
        let link = "\(Incarnation.random())"
        symlink(elsewhere.path, sandbox.file(link))

        let port = try register("alive")
        #expect(elsewhere.files == ["kept"])
        let own = "\(PortRuntime.shared.incarnation)"
        #expect(sandbox.files == [own, link, "names/alive"].sorted())
        #expect(try sandbox.names.names() == ["alive"])
        withExtendedLifetime(port) {}
    }

    @Test func `a sweep removes no name that is registered meanwhile`() throws {
        let planted = PortID(incarnation: PortRuntime.shared.incarnation, number: 1 << 40)
        for number in 0..<100 {
            let right = WireRight(id: planted, queueLimit: 1, limit: 1, path: sandbox.path)
            try sandbox.plant(NameEntry(name: "name \(number)", right: right))
        }
        let ports = try (0..<20).map { _ in try MachPort(nameServer: sandbox.names) }
        let (names, isOver) = (sandbox.names, Latch())
        let registrar = Helper {
            errorKind {
                var number = 0
                while !isOver.wait(until: .distantPast) {
                    number += 1
                    try names.register(ports[number % 20], name: "fresh \(number)")
                    try names.remove(ports[(number + 1) % 20], name: "fresh \(number - 19)")
                }
            }
        }
        for _ in 0..<100 { #expect(try names.sweep().names == []) }
        isOver.open()
        #expect(registrar.value() == "none")
    }

    @Test func `files that only look like ours survive the sweep`() throws {
        let (digest, folder) = ("\(Incarnation.random())", "\(Incarnation.random())")
        mkdir(sandbox.file(folder), 0o700)
        mkdir(sandbox.file("\(folder)/new"), 0o700)
        mkdir(sandbox.file("folder"), 0o700)
        let kept = [
            "notes.txt", "c", "1.txt", digest, "\(folder)/c", "\(folder)/1", "\(folder)/1.txt", "\(folder)/new/1",
            "folder/c",
        ]
        for file in kept { try sandbox.write("not ours", to: file) }
        let port = try register("alive")
        for file in kept { #expect(access(sandbox.file(file), F_OK) == 0, "\(file)") }
        withExtendedLifetime(port) {}
    }

    @Test func `a name that an invalid port of ours could not give up is free`() throws {
        var port: MachPort? = try register("kept")
        // As if the file system had refused when the port went.
        let id = try #require(port).id
        let entry = try String(contentsOfFile: "\(sandbox.folder("kept"))/\(id.file)", encoding: .utf8)
        #expect(errorKind { _ = try register("kept") } == "nameInUse")
        port = nil
        try sandbox.plant(entry, as: "kept", of: id)
        port = try register("kept")
        #expect(try sandbox.names.port(forName: "kept", before: .patience) == port?.sendRight)
    }

    @Test func `an entry that cannot be restored at once is restored later`() throws {
        let target = try Target(sandbox)
        let folder = try sandbox.folder("target")
        #expect(mkdir(sandbox.file("no name"), 0o700) == 0)
        try sandbox.write("no entry", to: "no name/spoiled")
        // The owner may restore its entry in between.
        let isReplaced = waitUntil {
            unlink("\(folder)/\(target.right.id.file)")
            return rename(sandbox.file("no name"), folder) == 0
        }
        #expect(isReplaced)
        #expect(waitUntil { target.hasLogged("nobody can find “target”") })
        #expect(unlink(folder + "/spoiled") == 0)
        #expect(waitUntil { (try? sandbox.names.port(forName: "target")) == target.right })
    }

    @Test func `of many entries that are removed at once each is restored`() throws {
        let port = try MachPort(nameServer: sandbox.names)
        let names = (0..<1500).map { "name \($0)" }
        for name in names { try sandbox.names.register(port, name: name) }
        let folders = try names.map { try sandbox.folder($0) }
        for folder in folders { try FileManager.default.removeItem(atPath: folder) }
        let entries = folders.map { "\($0)/\(port.sendRight.id.file)" }
        #expect(waitUntil { entries.allSatisfy { access($0, F_OK) == 0 } })
        #expect(try sandbox.names.port(forName: "name 1499", before: .patience) == port.sendRight)
    }

    @Test func `an invalid port leaves nothing but its process's own folder`() throws {
        var port: MachPort? = try register("first")
        try sandbox.names.register(try #require(port), name: "second")
        #expect(Set(try sandbox.names.names()) == ["first", "second"])
        port = nil
        #expect(sandbox.files == ["\(PortRuntime.shared.incarnation)"])
        #expect(access(sandbox.file("\(PortRuntime.shared.incarnation)/c"), F_OK) == 0)
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

    // MARK: Restoration

    /// Does something at the moment when the registry asks for its right.
    private final class InterruptedPort: RegisteredPort {
        let id: PortID
        var publicID: PortID { id }
        private let path: String
        let interruption = Shared<(@Sendable () throws -> Void)?>(nil)

        init(_ number: UInt64, in path: String) {
            id = PortID(incarnation: PortRuntime.shared.incarnation, number: number)
            self.path = path
        }

        func exposedRight() throws(PortError) -> WireRight {
            do { try interruption.withLock { $0.take() }?() } catch { Issue.record(error) }
            return WireRight(id: id, queueLimit: 1, limit: 1, path: path)
        }
        func took(_ entry: NameEntry, in directory: RegistryDirectory, hasCome: Bool) -> Bool { true }
        func gaveUpName(_ name: String, in directory: RegistryDirectory) {}
        func useListener() {}
    }

    /// A port whose socket cannot be made at first.
    private final class LatePort: RegisteredPort {
        let id = PortID(incarnation: PortRuntime.shared.incarnation, number: 1)
        var publicID: PortID { id }
        let path: String
        let attempts = Shared(0)
        let names = Shared<[String]>([])

        init(in path: String) { self.path = path }

        func exposedRight() throws(PortError) -> WireRight {
            let attempt = attempts.withLock { attempts in
                attempts += 1
                return attempts
            }
            if attempt == 1 { throw .directory(path, call: "open", errno: EACCES) }
            return WireRight(id: id, queueLimit: 1, limit: 1, path: path)
        }
        func took(_ entry: NameEntry, in directory: RegistryDirectory, hasCome: Bool) -> Bool {
            names.withLock { $0.append(entry.name) }
            return true
        }
        func gaveUpName(_ name: String, in directory: RegistryDirectory) {
            names.withLock { $0.removeAll { $0 == name } }
        }
        func useListener() {}
    }

    @Test func `a name that has come with a port waits for a directory that refuses it`() throws {
        let port = LatePort(in: sandbox.path)
        let registry = Registry(PortRuntime.shared.control) { $0 == 1 ? port : nil }
        defer { registry.close(before: .now + .seconds(1)) }
        let (isTaken, lost) = (Latch(), Shared(0))
        registry.take("late", isService: true, at: sandbox.path, with: port) {
            isTaken.open()
        } isLost: { _ in
            lost.withLock { $0 += 1 }
        }
        #expect(isTaken.wait(until: .patience))
        #expect(port.names.withLock { $0 } == ["late"])
        #expect(lost.withLock { $0 } == 0)
    }

    @Test func `a name that is given up while its directory refuses it is not taken later`() throws {
        let port = LatePort(in: sandbox.path)
        let registry = Registry(PortRuntime.shared.control) { $0 == 1 ? port : nil }
        defer { registry.close(before: .now + .seconds(1)) }
        let (isTaken, isOver) = (Latch(), Latch())
        registry.take("late", isService: true, at: sandbox.path, with: port) {
            isTaken.open()
        } isLost: { _ in
        }
        let directory = try registry.directory(sandbox.path)
        #expect(registry.awaitedNames(of: port.id).map(\.name) == ["late"])
        #expect(registry.giveUpAwaiting("late", in: directory, for: port.id))
        #expect(!registry.giveUpAwaiting("late", in: directory, for: port.id))
        // Behind the next attempt.
        registry.housekeeping.perform(after: .seconds(1)) { isOver.open() }
        #expect(isOver.wait(until: .patience))
        #expect(!isTaken.wait(until: .now))
        #expect(port.names.withLock { $0 } == [])
        #expect(try directory.entry("late") == nil)
    }

    @Test func `names stay in a directory that is back in its place, and none come into one that is away`() throws {
        let (path, away) = (sandbox.file("moving"), sandbox.file("away"))
        let port = InterruptedPort(1, in: path)
        let registry = Registry(PortRuntime.shared.control) { $0 == 1 ? port : nil }
        defer { registry.close(before: .now + .seconds(1)) }
        let first = try registry.directory(path)
        #expect(try first.give("mine", to: port))
        #expect(rename(path, away) == 0)
        // Made by a thread that goes on when the first directory is back.
        let second = try RegistryDirectory(path, registry)
        #expect(try !first.give("late", to: port))
        #expect(try first.entry("late") == nil)
        #expect(try !first.take("come", with: port, isService: true))
        #expect(try first.entry("come") == nil)
        sandbox.remove(path)
        #expect(rename(away, path) == 0)
        #expect(first.move(to: second))
        #expect(try first.entry("mine")?.right.id == port.id)
        // Two others follow each other.
        #expect(rename(path, away) == 0)
        let next = try RegistryDirectory(path, registry)
        sandbox.remove(path)
        #expect(mkdir(path, 0o700) == 0)
        #expect(!first.move(to: next))
        #expect(try registry.directory(path).entry("mine")?.right.id == port.id)
    }

    @Test(arguments: [false, true])
    func `nobody has removed the entry of a name that its port gives up meanwhile`(_ goesToOther: Bool) throws {
        let ports = (1...2).map { InterruptedPort($0, in: sandbox.path) }
        let registry = Registry(PortRuntime.shared.control) { number in ports.first { $0.id.number == number } }
        let directory = try registry.directory(sandbox.path)
        defer { registry.close(before: .now + .seconds(1)) }
        #expect(try directory.give("mine", to: ports[0]))
        // The entry is away, so there is something to restore.
        #expect(unlink("\(try sandbox.folder("mine"))/\(ports[0].id.file)") == 0)
        ports[0].interruption.withLock {
            $0 = {
                try directory.unregister("mine", from: ports[0].id)
                if goesToOther { #expect(try directory.give("mine", to: ports[1])) }
            }
        }
        #expect(try directory.restore("mine") == .unneeded)
        #expect(try directory.entry("mine")?.right.id == (goesToOther ? ports[1].id : nil))
    }
}
