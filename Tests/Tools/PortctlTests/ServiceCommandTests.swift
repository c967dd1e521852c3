import Foundation
import OwnThread
import TestSupport
import Testing

/// The commands about services that start on demand, as a user runs them.
@Suite(.ownThread) struct ServiceCommandTests {
    private let registry = Registry()
    private let folder = TemporaryFolder()

    private func write(_ name: String, _ lines: String...) {
        folder.write(Array((["[Service]"] + lines).joined(separator: "\n").utf8), to: "\(name).service")
    }

    private func writeService() {
        write("test", "ExecStart=\(Child.folder)/ActivationTestHelper", "Environment=SWIFT_BACKTRACE=enable=no")
    }

    /// Starts an activator, and waits until it holds the services.
    private func activate() throws -> Run {
        let run = registry.start("activate", "--services", folder.path, "--logs", folder.path + "/log")
        let isThere = registry.portctl("wait", "swift-ports.activator", "--timeout", "60")
        try #require(isThere.status == 0)
        return run
    }

    @Test func `without an activator the commands say how to start one`() {
        for words in [["services"], ["start", "test"], ["status", "test"], ["logs", "test"], ["reload"]] {
            let outcome = registry.start(words).outcome
            #expect(outcome.status == 1)
            #expect(
                outcome.errors
                    == "portctl: no activator runs in \(registry.path): start “portctl activate”, or the user unit "
                    + "that runs it (see PORTS_DIRECTORY)\n")
        }
    }

    @Test func `a service is started, shown, restarted and stopped`() throws {
        writeService()
        let activator = try activate()
        #expect(registry.portctl("services").output.contains("test  waiting  -    0 "))
        #expect(registry.portctl("start", "test") == Outcome(0))
        let running = try #require(try registry.json("status", "test", "--json") as? [String: Any])
        #expect(running["state"] as? String == "running")
        #expect(running["starts"] as? Int == 1)
        #expect(running["failure"] is NSNull)
        let pid = try #require(running["pid"] as? Int)
        let status = registry.portctl("status", "test")
        #expect(status.output.contains("process  \(pid)\n"))
        #expect(registry.portctl("restart", "test") == Outcome(0))
        let services = try #require(try registry.json("services", "--json") as? [[String: Any]])
        #expect(services.count == 1 && services[0]["pid"] as? Int != pid)
        #expect(registry.portctl("stop", "test") == Outcome(0))
        #expect(registry.portctl("services").output.contains("test  waiting  -    2 "))
        activator.child.signal(SIGTERM)
        #expect(activator.outcome.status == 0)
        #expect(registry.portctl("list") == Outcome(0, "", registry.noNames))
    }

    @Test func `what a service has written is shown, and why it does not start`() throws {
        write("test", "ExecStart=/bin/sh -c \"echo one; echo two >&2; exit 4\"")
        let activator = try activate()
        let outcome = registry.portctl("start", "test")
        #expect(outcome.status == 1)
        #expect(
            outcome.errors
                == "portctl: the service “test” has failed: it exited with status 4 before it took its port; its "
                + "last lines in \(folder.path)/log/test.log: one | two\n")
        #expect(registry.portctl("logs", "test") == Outcome(0, "one\ntwo\n"))
        #expect(registry.portctl("logs", "test", "-n", "1") == Outcome(0, "two\n"))
        #expect(registry.portctl("status", "test").output.contains("failure  it exited with status 4"))
        let following = registry.start("logs", "test", "--follow")
        try following.waits(for: "one\ntwo\n")
        _ = registry.portctl("start", "test")
        try following.waits(for: "one\ntwo\none\ntwo\n")
        following.child.signal(SIGTERM)
        activator.child.signal(SIGINT)
        #expect(activator.outcome.status == 0)
    }

    /// Ends an activator with its services, which would outlive an activator that is killed.
    private func end(_ activator: Run) {
        activator.child.signal(SIGTERM)
        #expect(activator.outcome.status == 0)
    }

    @Test func `the folder is read again by reload and by SIGHUP`() throws {
        let activator = try activate()
        defer { end(activator) }
        writeService()
        #expect(registry.portctl("start", "test").errors.contains("there is no service “test”"))
        #expect(registry.portctl("reload") == Outcome(0))
        #expect(registry.portctl("start", "test") == Outcome(0))
        write("other", "ExecStart=/bin/true")
        activator.child.signal(SIGHUP)
        #expect(waitUntil { registry.portctl("services").output.contains("other  waiting") })
        let second = registry.portctl("activate", "--services", folder.path)
        #expect(second.status == 1)
        #expect(
            second.errors.contains("holds the services of \(registry.path) already: end it, or set PORTS_DIRECTORY"))
    }

    @Test func `when the activator is killed its service goes on, and the next activator takes over afterwards`() throws
    {
        writeService()
        let killed = try activate()
        #expect(registry.portctl("start", "test") == Outcome(0))
        let status = try #require(try registry.json("status", "test", "--json") as? [String: Any])
        let pid = try #require(status["pid"] as? Int32)
        killed.child.kill()
        killed.child.wait()
        defer { kill(pid, SIGKILL) }
        #expect(registry.portctl("ping", "test", "--count", "1").status == 0)
        let next = try activate()
        defer { end(next) }
        #expect(waitUntil { registry.portctl("services").output.contains("test  elsewhere  \(pid)") })
        kill(pid, SIGTERM)
        #expect(waitUntil { registry.portctl("services").output.contains("test  waiting") })
        #expect(registry.portctl("start", "test") == Outcome(0))
    }

    @Test func `a mistake in a file is named with its line`() throws {
        write("test", "ExecStart=/bin/true", "LimitNoFile=3")
        _ = try activate()
        #expect(
            registry.portctl("start", "test").errors.contains(
                "\(folder.path)/test.service, line 3: [Service] has no key LimitNoFile"))
        let reload = registry.portctl("reload")
        #expect(reload.status == 1)
        #expect(
            reload.errors.hasPrefix("portctl: \(folder.path)/test.service, line 3: [Service] has no key LimitNoFile"))
        #expect(registry.portctl("logs", "test", "-n", "-1").status == 64)
    }
}
