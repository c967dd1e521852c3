import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Processes and files of other users, behind a registry directory that was opened to them.
@Suite(.ownThread, .enabled(if: geteuid() == 0, "only root can become another user")) struct StrangerTests {
    let sandbox = Sandbox()

    private static let stranger: uid_t = 65534

    @Test func `another user's process is refused, and told to the log with its pid and uid`() throws {
        let target = try Target(sandbox)
        #expect(chmod(sandbox.path, 0o777) == 0)
        for path in [target.path, target.controlPath] {
            #expect(chmod(String(path[..<(path.lastIndex(of: "/") ?? path.endIndex)]), 0o777) == 0)
            #expect(chmod(path, 0o777) == 0)
        }
        for (path, kind) in [(target.path, "port"), (target.controlPath, "control")] {
            let intruder = Child("intrude", path, kind, in: sandbox)
            #expect(intruder.wait() == 0)
            // Without the program's name, if the intruder has gone.
            let who = [
                "(pid \(intruder.pid)) of user \(Self.stranger)", "process \(intruder.pid) of user \(Self.stranger)",
            ]
            #expect(waitUntil { who.contains { target.hasLogged($0, "it belongs to another user") } })
        }
        let seen = try target.seen()
        #expect(seen.handled == 0)
        #expect(seen.malformed == 0)
    }

    @Test func `a process of another user that poses as an owner hears nothing, and is named`() throws {
        let incarnation = Incarnation.random()
        let folder = sandbox.file("\(incarnation)")
        #expect(mkdir(folder, 0o777) == 0)
        #expect(chmod(folder, 0o777) == 0)
        #expect(chmod(sandbox.path, 0o755) == 0)
        let impostor = Child("pose", folder + "/c", in: sandbox)
        #expect(waitUntil { LocalSocket.listening(at: folder + "/c") == .somebody })
        let right = MachPort.SendRight(
            PortRuntime.shared.channels.channel(
                to: WireRight(
                    id: PortID(incarnation: incarnation, number: 1), queueLimit: 1, limit: 1000, path: sandbox.path)))
        let error = portError { try right.send(MachPort.Message(), before: .patience) }
        #expect(kind(error) == "cannotConnect")
        #expect(error?.description.contains("(pid \(impostor.pid))") == true)
        #expect(error?.description.contains("user \(Self.stranger)") == true)
        impostor.kill()
        #expect(impostor.wait() == -SIGKILL)
    }

    @Test func `another user's files in the registry are not opened, followed or removed`() throws {
        let right = WireRight(
            id: PortID(incarnation: .random(), number: 3), queueLimit: 1, limit: 1, path: sandbox.path)
        let entry = try sandbox.plant(NameEntry(name: "planted", right: right))
        try sandbox.write("secret", to: "target")
        #expect(symlink(sandbox.file("target"), try sandbox.folder("linked")) == 0)
        for planted in sandbox.files.map(sandbox.file) + [entry] {
            #expect(lchown(planted, Self.stranger, Self.stranger) == 0)
        }
        let before = sandbox.files
        let port = try MachPort(nameServer: sandbox.names)
        for name in ["planted", "linked"] {
            let attempts: [() throws -> Void] = [
                { _ = try sandbox.names.port(forName: name) }, { try sandbox.names.register(port, name: name) },
            ]
            for attempt in attempts {
                #expect(["untrustedDirectory", "directory"].contains(errorKind(attempt)))
            }
        }
        let error = portError { _ = try sandbox.names.port(forName: "planted") }
        #expect(error?.description.contains("user \(Self.stranger)") == true)
        #expect(try sandbox.names.names() == [])
        try sandbox.names.register(port, name: "mine")
        #expect(Set(sandbox.files).isSuperset(of: before))
        #expect(try sandbox.names.names() == ["mine"])
    }

    @Test func `a registry that belongs to another user is not used`() throws {
        #expect(chown(sandbox.path, Self.stranger, Self.stranger) == 0)
        let error = portError {
            try sandbox.names.register(try MachPort(nameServer: sandbox.names), name: "x")
        }
        #expect(kind(error) == "untrustedDirectory")
        #expect(error?.description.contains("user \(Self.stranger)") == true)
        #expect(chown(sandbox.path, 0, 0) == 0)
    }
}
