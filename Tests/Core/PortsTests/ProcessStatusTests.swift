import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

@Suite(.ownThread) struct ProcessStatusTests {
    let sandbox = Sandbox()

    @Test func `a process that runs or is stopped is not ending`() throws {
        #expect(!ProcessStatus.isEnding(getpid()))
        #expect(!ProcessStatus.isEnding(0))
        let desk = try Desk(sandbox)
        let child = Child("echo", in: sandbox)
        let right = try desk.report()
        child.signal(SIGSTOP)
        #expect(waitUntil { state(of: child.pid) == "T" })
        #expect(!ProcessStatus.isEnding(child.pid))
        child.signal(SIGCONT)
        #expect(try RemoteMessagePort(right).request(id: 1, [1]) == [1])
    }

    @Test func `a process that was killed is ending until it is gone`() throws {
        let desk = try Desk(sandbox)
        let child = Child("echo", in: sandbox)
        _ = try desk.report()
        child.kill()
        // Nobody has collected it. Its other threads may take a moment longer than the first.
        #expect(waitUntil { state(of: child.pid) == "Z" })
        #expect(waitUntil { ProcessStatus.isEnding(child.pid) })
        #expect(child.wait() == -SIGKILL)
    }

    @Test func `a process that goes on without its first thread is not ending`() throws {
        let desk = try Desk(sandbox)
        let child = Child("headless", in: sandbox)
        let right = try desk.report()
        #expect(waitUntil { state(of: child.pid) == "Z" })
        #expect(!ProcessStatus.isEnding(child.pid))
        #expect(try RemoteMessagePort(right).request(id: 1, [1]) == [1])
        let port = try MachPort(nameServer: sandbox.names)
        #expect(
            portError { try sandbox.names.register(port, name: "headless") }?.port?.pid == child.pid)
    }

    @Test func `a process whose threads cannot be listed is not ending`() throws {
        let desk = try Desk(sandbox)
        let child = Child("headless", in: sandbox)
        let right = try desk.report()
        #expect(waitUntil { state(of: child.pid) == "Z" })
        let nothing = TemporaryFolder()
        let script = "mount --bind \(nothing.path) /proc/\(child.pid)/task || exit 99; exec \"$@\""
        let claimant = Child(
            "come", "headless", in: sandbox,
            wrapper: ["/usr/bin/unshare", "--map-root-user", "--mount", "/bin/sh", "-c", script, "sh"])
        // It cannot have the name, or this system lets nobody mount.
        #expect([70, 99, 1].contains(claimant.wait()))
        #expect(try RemoteMessagePort(right).request(id: 1, [1]) == [1])
    }

    /// The letter that `ps` shows, of the process's first thread.
    private func state(of pid: pid_t) -> Character? {
        var buffer = [UInt8](repeating: 0, count: 1024)
        let descriptor = open("/proc/\(pid)/stat", O_RDONLY | O_CLOEXEC)
        defer { close(descriptor) }
        let count = read(descriptor, &buffer, buffer.count)
        let text = String(decoding: buffer.prefix(max(count, 0)), as: UTF8.self)
        return text.lastIndex(of: ")").map { text[text.index($0, offsetBy: 2)] }
    }
}
