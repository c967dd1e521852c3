import Glibc
import OwnThread
import TestSupport
import Testing

/// The example under a double of systemd: it says what its unit expects.
@Suite(.ownThread) struct DaemonTests {
    private let manager = ManagerDouble()
    private let folder = TemporaryFolder()
    private let unit: Unit

    init() throws { unit = try Unit() }

    private static let program = "\(Child.folder)/daemon"

    /// - Parameter file: A file that the daemon gets as its fourth descriptor, number 3; nil for none.
    private func start(passing file: String? = nil) throws -> Child {
        let words = unit.words("ExecStart", home: folder.path)
        #expect(words.first == folder.path + "/.local/bin/daemon")
        let passing = file == nil ? "" : #"export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=counter; exec 3<>"$FILE"; "#
        let environment = try unit.environment(manager)
            .merging(["PORTS_DIRECTORY": folder.path + "/ports", "FILE": file ?? ""]) { $1 }
        return Child(
            ["/bin/sh", "-c", passing + #"exec "$0" "$@""#, Self.program] + words.dropFirst(), environment: environment)
    }

    private func output(_ arguments: String...) -> String {
        let run = Run([Self.program] + arguments, environment: ["PORTS_DIRECTORY": folder.path + "/ports"])
        #expect(run.child.wait() == 0)
        return String(decoding: run.output, as: UTF8.self)
    }

    @Test func `the daemon speaks for each directive of its unit`() throws {
        #expect(
            Set(unit.directives.keys) == [
                "Type", "ExecStart", "ExecReload", "WatchdogSec", "Restart", "FileDescriptorStoreMax",
            ])
        mkdir(folder.path + "/.config", 0o700)
        folder.write(Array("Good evening\n".utf8), to: ".config/greeting")
        let daemon = try start()

        // FileDescriptorStoreMax=
        let stored = try #require(manager.nextNews())
        #expect(stored.lines == ["FDSTORE=1", "FDNAME=counter"])
        #expect(unit.directives["FileDescriptorStoreMax"] == "\(stored.descriptors.count)")

        // Type=: the name is there at once, without a wait.
        #expect(unit.directives["Type"] == "notify")
        #expect(manager.nextNews()?.lines == ["READY=1", "STATUS=says “Good evening”"])
        #expect(entries(of: folder.path + "/ports/names")?.contains("com.example.greeter") == true)
        #expect(output("ask", "Ann") == "Good evening, Ann!\n")

        // WatchdogSec=
        #expect(manager.receives { $0 == "WATCHDOG=1" })

        // ExecReload=
        folder.write(Array("Good night\n".utf8), to: ".config/greeting")
        let reload = unit.words("ExecReload", home: folder.path).joined(separator: " ")
        #expect(Child(["/bin/sh", "-c", reload], environment: ["MAINPID": "\(daemon.pid)"]).wait() == 0)
        #expect(manager.nextNews()?.lines.first == "RELOADING=1")
        #expect(manager.nextNews()?.lines == ["READY=1", "STATUS=says “Good night”"])
        #expect(output("ask", "Ben") == "Good night, Ben!\n")

        daemon.signal(SIGTERM)
        #expect(manager.nextNews()?.lines == ["STOPPING=1"])
        #expect(daemon.wait() == 0)
    }

    @Test func `the daemon that follows on a crash has the memory that the manager has kept`() throws {
        let first = try start()
        let stored = try #require(manager.nextNews())
        #expect(manager.receives { $0 == "READY=1" })
        #expect(output("ask", "Ann") == "Hello, Ann!\n")
        first.kill()
        #expect(first.wait() == -SIGKILL)
        let memory = try #require(stored.descriptors.first)
        let next = try start(passing: "/proc/\(getpid())/fd/\(memory)")
        // It stores nothing again.
        #expect(manager.nextNews()?.lines.first == "READY=1")
        #expect(output("ask", "Ben") == "Hello, Ben!\n")
        #expect(output("report") == "greetings: 2\n")
        next.signal(SIGTERM)
        #expect(next.wait() == 0)
    }
}
