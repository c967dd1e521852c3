import Foundation
import OwnThread
import TestSupport
import Testing

/// The program as a user runs it. Each test has a registry directory of its own.
@Suite(.ownThread) struct PortctlTests {
    private let registry = Registry()

    // MARK: Names

    @Test func `nobody is listed where nobody is`() throws {
        #expect(registry.portctl("list") == Outcome(0, "", registry.noNames))
        #expect(registry.portctl("list", "--json") == Outcome(0, "[]\n"))
        let outcome = registry.portctl("info", "nobody")
        #expect(outcome.status == 2)
        #expect(outcome.output == "")
        #expect(
            outcome.errors == "portctl: nobody has registered the name “nobody” in \(registry.path): "
                + "is its server running, with the same directory?\n")
    }

    @Test func `names are listed with their owners`() throws {
        let servers = try ["b", "a\nname"].map { try registry.serve($0) }
        let list = registry.portctl("list")
        let rows = list.output.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        #expect(rows.map(\.first) == ["NAME", "a\\nname", "b"])
        #expect(rows[1][1] == "\(servers[1].pid)")
        #expect(rows[2][1] == "\(servers[0].pid)")
        #expect(rows[1].last?.hasSuffix("/PortsTestHelper") == true)

        let infos = try #require(try registry.json("list", "--json") as? [[String: Any]])
        #expect(infos.map { $0["name"] as? String } == ["a\nname", "b"])
        let info = try #require(try registry.json("info", "b", "--json") as? [String: Any])
        #expect(info["pid"] as? Int32 == servers[0].pid)
        #expect(info["uid"] as? UInt32 == geteuid())
        #expect((info["program"] as? String)?.hasSuffix("/PortsTestHelper") == true)
        let since = try Date(try #require(info["since"] as? String), strategy: .iso8601)
        #expect(abs(since.timeIntervalSinceNow) < 1000)
        #expect(
            registry.portctl("info", "b").output.contains("owner     process \(servers[0].pid)\n"))
        // Its ZeroMQ socket is bound for its own process and for others.
        let text = registry.portctl("info", "b").output
        let socket = try #require(
            text.firstMatch(
                of:
                    /socket +inproc:\/\/(\d+) in its process, with the descriptor (\d+)\n +ipc:\/\/(\S+) for/
            ))
        #expect(socket.3.hasPrefix(registry.path + "/") && socket.3.hasSuffix("/\(socket.1)"))
        #expect(FileManager.default.fileExists(atPath: String(socket.3)))
        let link = try FileManager.default.destinationOfSymbolicLink(
            atPath: "/proc/\(servers[0].pid)/fd/\(socket.2)")
        #expect(link == "anon_inode:[eventfd]")
    }

    @Test func `it is seen how many messages wait, and how fast they go`() throws {
        let stuck = try registry.serve("stuck", as: "hold")
        _ = try registry.serve("swift")
        for _ in 0..<3 { #expect(registry.portctl("send", "stuck") == Outcome(0)) }
        let rows = registry.portctl("list").output.split(separator: "\n").map { $0.split(separator: " ") }
        #expect(rows.map { $0[$0.count - 2] } == ["WAITING", "3", "0"])
        let info = try #require(try registry.json("info", "stuck", "--json") as? [String: Any])
        #expect(info["waiting"] as? Int == 3)
        #expect(info["received"] as? Int == 0)

        let top = registry.start("top", "--json", "--interval", "0.1")
        try top.waits(for: #""name":"swift""#)
        for _ in 0..<5 { _ = registry.portctl("request", "swift", "hello") }
        try top.waits(for: #""received":5}"#)
        top.child.signal(SIGINT)
        let outcome = top.outcome
        #expect(outcome.status == 0)
        let tables = try outcome.output.split(separator: "\n").map {
            try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [[String: Any]])
        }
        #expect(tables.first?.allSatisfy { $0["rate"] is NSNull } == true)
        // The one in trouble comes first.
        #expect(tables.allSatisfy { $0.map { $0["name"] as? String } == ["stuck", "swift"] })
        #expect(tables.contains { ($0.last?["rate"] as? Int ?? 0) > 0 })

        // An owner that does not answer keeps nothing else from being shown.
        stuck.stop()
        let table = registry.portctl("top", "--count", "1").output.split(separator: "\n")
        #expect(table.count == 3)
        #expect(table.contains { $0.hasPrefix("stuck ") && $0.contains(" ? ") })
        #expect(registry.portctl("top", "--count", "0").status == 64)
    }

    @Test func `it is seen which service is stuck, which is unserved, which is flooded, and by whom`() throws {
        _ = try registry.serve("well")
        let nobody = try registry.serve("nobody", as: "hold")
        let stuck = try registry.serve("stuck", as: "get-stuck")
        let flooded = try registry.serve("flooded", as: "be-slow")
        let flood = registry.helper("send-on", "flooded")
        #expect(registry.portctl("send", "nobody") == Outcome(0))
        for _ in 0..<2 { #expect(registry.portctl("send", "stuck") == Outcome(0)) }
        try #require(
            waitUntil {
                (try? registry.json("info", "flooded", "--json") as? [String: Any])?["state"] as? String == "flooded"
            })

        let doctor = registry.portctl("doctor")
        #expect(doctor.status == 1)
        func line(_ name: String) -> Substring {
            doctor.output.split(separator: "\n").first { $0.contains("“\(name)” is ") } ?? ""
        }
        #expect(
            line("nobody").hasPrefix("error    “nobody” is unserved: 1 message waits, and nobody takes them"),
            "\(doctor.output)")
        #expect(line("stuck").hasPrefix("error    “stuck” is stuck: 1 message waits, and none was taken in a look of "))
        #expect(line("flooded").hasPrefix("warning  “flooded” is flooded: "))
        #expect(line("stuck").contains("has been busy for at least "))
        #expect(line("stuck").contains("now in source of descriptor"))
        #expect(line("flooded").contains("(pid \(flood.child.pid)) has sent"))
        #expect(line("well") == "")
        let findings = try registry.json("doctor", "--json", status: 1) as? [[String: Any]]
        let found = try #require(findings).filter { $0["name"] is String }
        #expect(found.map { $0["name"] as? String } == ["flooded", "nobody", "stuck"])
        #expect(found.map { $0["condition"] as? String } == ["flooded", "unserved", "stuck"])
        #expect(found.allSatisfy { $0["check"] as? String == "ports" && $0["pid"] is Int })

        let list = registry.portctl("list").output.split(separator: "\n").dropFirst().map { $0.split(separator: " ") }
        #expect(list.map { $0[5] } == ["flooded", "unserved", "stuck", "served"])
        let info = registry.portctl("info", "stuck").output
        #expect(
            info.contains("\nserved    by the loop of thread \(stuck.pid) “PortsTestHelper”, in mode default: it runs"))
        #expect(info.contains("\nstate     stuck\n"))
        #expect(info.contains("\nremedy    "))
        #expect(registry.portctl("info", "nobody").output.contains("\nserved    no: the port is unserved\n"))

        stuck.stop()
        let stopped = registry.portctl("doctor").output
        #expect(stopped.contains("“stuck” is stopped: PortsTestHelper (pid \(stuck.pid)), its owner, is stopped\n"))
        #expect(stopped.contains("\n         kill -CONT \(stuck.pid)"))
        withExtendedLifetime((nobody, flooded)) {}
    }

    @Test func `a chain of waits leads to its root, and a cycle is a deadlock`() throws {
        _ = try registry.serve("c", as: "get-stuck")
        _ = try registry.serve("b", as: "ask-another", "c")
        _ = try registry.serve("a", as: "ask-another", "b")
        for name in ["c", "a"] { #expect(registry.portctl("send", name, "--id", "7") == Outcome(0)) }
        func isStuck(_ name: String) -> Bool {
            let info = try? registry.json("info", name, "--json") as? [String: Any]
            return ["busy", "stuck"].contains(info?["state"] as? String)
        }
        #expect(waitUntil { ["a", "b", "c"].allSatisfy(isStuck) })
        let findings = try #require(try registry.json("doctor", "--json", status: 1) as? [[String: Any]])
        let found = Dictionary(
            uniqueKeysWithValues: findings.compactMap { f in (f["name"] as? String).map { ($0, f) } })
        #expect(found["a"]?["root"] as? String == "c", "\(findings)")
        #expect(found["b"]?["root"] as? String == "c", "\(findings)")
        #expect(found["c"]?["root"] is NSNull)
        #expect(found["a"]?["deadlock"] as? Bool == false)
        let text = found["a"]?["text"] as? String ?? ""
        #expect(text.hasSuffix("“a” waits for “b”, “b” waits for “c”: the root is “c”, which is stuck"), "\(text)")
        #expect(found["a"]?["remedy"] as? String == "look at “c” first")
        let message = (found["c"]?["text"] as? String) ?? ""
        #expect(message.contains("a message of id 7"), "\(message)")

        _ = try registry.serve("x", as: "ask-another", "y")
        _ = try registry.serve("y", as: "ask-another", "x")
        #expect(registry.portctl("send", "x") == Outcome(0))
        #expect(waitUntil { ["x", "y"].allSatisfy(isStuck) })
        let doctor = registry.portctl("doctor")
        #expect(doctor.status == 1, "\(doctor.output)")
        #expect(doctor.output.contains("; “x” waits for “y”, “y” waits for “x”: a deadlock\n"), "\(doctor.output)")
    }

    @Test func `messages are shown as they pass`() throws {
        let server = try registry.serve("clock")
        let shown = registry.start("monitor", "clock", "-n", "4")
        try shown.waitsForError("monitoring clock")
        let json = registry.start("monitor", "clock", "--json", "--id", "7", "--min-size", "2", "--count", "1")
        let program = registry.start("monitor", "clock", "--from", "portctl")
        try program.waitsForError("monitoring clock")
        #expect(registry.portctl("request", "clock", "--id", "98").status == 5)
        #expect(registry.portctl("request", "clock", "--id", "5", "hello") == Outcome(0, "hello"))
        let outcome = shown.outcome
        let lines = outcome.output.split(separator: "\n")
        #expect(
            outcome.errors.contains("“clock”: 2 requests of 2 processes: 1 reply, 1 unanswered, the slowest after "))
        let start = #/\d\d:\d\d:\d\d\.\d{6}  clock  /#
        try #require(lines.count == 4, "\(lines)")
        try #require(lines.allSatisfy { $0.prefixMatch(of: start) != nil }, "\(lines)")
        #expect(lines[0].contains("#1 request id 98, 0 bytes, of portctl (pid "))
        #expect(lines[1].contains("#1 unanswered id 98 after "))
        #expect(lines[2].contains("#2 request id 5, 5 bytes, of portctl (pid "))
        #expect(lines[3].contains("#2 reply id 5 after "))
        #expect(lines[3].hasSuffix(" ms"))

        // The other one may not have begun.
        #expect(
            waitUntil {
                _ = registry.portctl("request", "clock", "--id", "7", "x")
                _ = registry.portctl("request", "clock", "--id", "7", "xyz")
                return json.text != ""
            })
        let object = try #require(
            try JSONSerialization.jsonObject(with: Data(json.outcome.output.utf8)) as? [String: Any])
        #expect(object["event"] as? String == "request")
        #expect(object["size"] as? Int == 3)
        #expect(object["id"] as? Int == 7)
        try program.waits(for: "#2 reply id 5")
        server.signal(SIGKILL)
        #expect(program.outcome.errors.contains("the port “clock” has ended"))
        #expect(program.outcome.status == 4)
        #expect(registry.portctl("monitor", "nobody").status == 2)
        #expect(registry.portctl("monitor").status == 64)
    }

    @Test func `a monitor of a port that takes nothing says so, and whose messages wait`() throws {
        let nobody = try registry.serve("nobody", as: "hold")
        let feeder = registry.helper("send-on", "nobody")
        #expect(waitUntil { registry.portctl("list").output.contains(" unserved ") })
        let shown = registry.start("monitor", "nobody")
        try shown.waitsForError("“nobody”: ")
        shown.child.signal(SIGINT)
        let outcome = shown.outcome
        #expect(outcome.status == 0)
        #expect(outcome.output == "")
        let lines = outcome.errors.split(separator: "\n")
        try #require(lines.count >= 3, "\(lines)")
        #expect(lines.last == "portctl: “nobody”: no messages")
        #expect(lines[1].contains("messages wait, and nobody takes them: "))
        #expect(lines[1].hasSuffix("/PortsTestHelper (pid \(feeder.child.pid))"), "\(lines)")
        withExtendedLifetime(nobody) {}
    }

    @Test func `a request without a reply is told, with its asker and its time`() throws {
        _ = try registry.serve("slow")
        let asker = registry.start("request", "slow", "--id", "97", "--timeout", "60")
        func look(_ arguments: String...) -> String {
            registry.shell(#""$0" "# + arguments.joined(separator: " ")).output
        }
        #expect(waitUntil { look("list").contains(" slow ") })
        let request = "a request of id 97 of portctl (pid \(asker.child.pid)), taken "
        let info = look("info", "slow")
        #expect(info.contains("\nrequests  \(request)"), "\(info)")
        #expect(info.contains("\nstate     slow\n"), "\(info)")
        let doctor = registry.portctl("doctor")
        #expect(doctor.status == 0)
        #expect(doctor.output.contains("warning  “slow” is slow: 1 request is in progress: \(request)"))
        let shown = registry.start("monitor", "slow")
        try shown.waitsForError("“slow”: 1 request is in progress: \(request)")
        shown.child.signal(SIGINT)
        let looks = try #require(try registry.json("list", "--json") as? [[String: Any]])
        let answer = try #require(looks.first?["info"] as? [String: Any])
        let requests = try #require(answer["requests"] as? [String: Any])
        let oldest = try #require(requests["oldest"] as? [[String: Any]])
        #expect(requests["count"] as? Int == 1)
        #expect(oldest.first?["id"] as? Int == 97)
        #expect(oldest.first?["type"] is NSNull)
        asker.child.signal(SIGKILL)
        #expect(waitUntil { look("info", "slow").contains(", not waited for any more\n") })
    }

    @Test func `a name is waited for, and its end`() throws {
        let waiting = registry.start("wait", "late")
        let server = try registry.serve("late")
        #expect(waiting.outcome == Outcome(0))
        let late = registry.portctl("wait", "late", "--gone", "--timeout", "0.02")
        #expect(late.status == 3)
        #expect(
            late.errors
                == "portctl: PortsTestHelper (pid \(server.pid)) still has the name “late”: allow more time, or end it\n"
        )
        let ending = registry.start("wait", "late", "--gone")
        server.signal(SIGKILL)
        #expect(ending.outcome == Outcome(0))
        #expect(registry.portctl("wait", "late", "--timeout", "0.02").status == 3)
    }

    @Test func `names are seen coming and going`() throws {
        let first = try registry.serve("first")
        let watch = registry.start("watch")
        let json = registry.start("watch", "--json")
        try watch.waits(for: "+ first  \(first.pid)")
        try json.waits(for: #"{"event":"came","registration":{"name":"first","#)
        let second = try registry.serve("second")
        try watch.waits(for: "+ second  \(second.pid)")
        first.signal(SIGKILL)
        try watch.waits(for: "- first  \(first.pid)  /")
        try json.waits(for: #"{"event":"went","registration":{"name":"first","#)
        #expect(registry.portctl("send", "second", "--id", "99") == Outcome(0))
        try watch.waits(for: "- second  \(second.pid)")
    }

    @Test func `what killed processes leave is swept`() throws {
        let server = try registry.serve("killed")
        server.signal(SIGKILL)
        server.wait()
        #expect(registry.portctl("list") == Outcome(0, "", registry.noNames))
        let doctor = registry.portctl("doctor")
        #expect(doctor.status == 0)
        #expect(doctor.output.contains("warning  leftovers: 1 name of killed processes\n"))
        // The doctor's port has swept; the next one is killed for the command itself.
        let other = try registry.serve("other")
        other.signal(SIGKILL)
        other.wait()
        #expect(
            registry.portctl("sweep", "--json") == Outcome(0, #"{"processes":1,"names":["other"]}"# + "\n"))
        #expect(registry.portctl("sweep") == Outcome(0, "killed processes have left nothing\n"))
        #expect(registry.files == [])
    }

    // MARK: Messages

    @Test func `a request's reply is written as it is`() throws {
        let server = try registry.serve("echo")
        #expect(registry.portctl("request", "echo", "hello") == Outcome(0, "hello"))
        #expect(registry.portctl("request", "echo", "-", input: "a\nb\n") == Outcome(0, "a\nb\n"))
        #expect(registry.portctl("request", "echo", "--", "-x") == Outcome(0, "-x"))
        #expect(registry.portctl("request", "echo") == Outcome(0))
        #expect(registry.portctl("request", "echo", "--json") == Outcome(0, "{\"data\":null}\n"))
        #expect(registry.portctl("request", "echo", "", "--json") == Outcome(0, "{\"data\":\"\"}\n"))
        #expect(
            registry.portctl("request", "echo", "a\"\n", "--json") == Outcome(0, #"{"data":"a\"\n"}"# + "\n"))
        let large = String(repeating: "x", count: 300_000)
        #expect(registry.portctl("request", "echo", "-", input: large) == Outcome(0, large))
        #expect(registry.portctl("send", "echo", "--id", "99") == Outcome(0))
        #expect(server.wait() == 0)
        #expect(registry.files == [])
    }

    @Test func `requests that fail have statuses of their own`() throws {
        let server = try registry.serve("echo")
        #expect(registry.portctl("request", "nobody").status == 2)
        #expect(registry.portctl("send", "nobody").status == 2)
        #expect(registry.portctl("request", "echo", "--id", "97", "--timeout", "0.05").status == 3)
        #expect(registry.portctl("request", "echo", "--id", "98").status == 5)
        #expect(registry.portctl("request", "echo", "--id", "99").status == 4)
        server.wait()
        #expect(registry.portctl("send", "", "x").status == 1)
    }

    @Test func `a portctl without NATS says how to build one with it`() {
        for command in ["list", "ping test", "request test"] {
            let words = command.split(separator: " ").map(String.init) + ["--nats", "nats://127.0.0.1:4222"]
            let outcome = registry.start(words).outcome
            #expect(outcome.status == 64)
            #expect(outcome.errors.contains("make install NATS=1"))
        }
    }

    @Test(arguments: [
        ["nonsense"], ["info"], ["request", "x", "--timeout", "-1"], ["request", "x", "--timeout", "soon"],
        ["send", "x", "--id", "-1"], ["ping", "x", "--count", "0"], ["wait"], ["info", "x", "--observe", "11"],
    ])
    func `wrong usage has its own status`(_ arguments: [String]) throws {
        let outcome = registry.start(arguments).outcome
        #expect(outcome.status == 64)
        #expect(outcome.output == "")
        #expect(outcome.errors.contains("Usage: portctl"))
    }

    @Test func `a command that there is not is answered with those that there are`() {
        let errors = registry.portctl("lst").errors
        #expect(
            errors.contains("There is no command “lst”. The commands are activate, doctor, info, list, "), "\(errors)")
        #expect(registry.portctl("help", "list").status == 0)
    }

    @Test(arguments: ["-1", "soon", "--json"])
    func `what is no time is named, with what a time is`(_ word: String) {
        let errors = registry.portctl("request", "x", "--timeout", word).errors
        #expect(
            errors.contains("The value '\(word)' is invalid for '--timeout <timeout>': a time is a number of seconds"))
    }

    @Test func `standard streams that are closed are errors, and no way to the owner`() throws {
        _ = try registry.serve("echo")
        let unwritten = registry.shell(#""$0" request echo hello >&-"#)
        #expect(unwritten.status == 1)
        #expect(unwritten.errors.contains("standard output"))
        let unread = registry.shell(#""$0" request echo - <&-"#)
        #expect(unread.status == 1)
        #expect(unread.errors.contains("standard input"))
        #expect(registry.portctl("request", "echo", "hello") == Outcome(0, "hello"))
    }

    @Test func `more data than the port takes is not read to its end`() throws {
        _ = try registry.serve("echo")
        let outcome = registry.shell(#""$0" send echo - </dev/zero"#)
        #expect(outcome.status == 1)
        #expect(outcome.errors.contains("too large for “echo”"))
    }

    @Test func `an owner that is stopped is late`() throws {
        let server = try registry.serve("echo")
        server.stop()
        for command in ["request", "send", "ping"] {
            let outcome = registry.portctl(command, "echo", "--timeout", "0.1")
            #expect(outcome.status == 3, "\(command): \(outcome)")
            #expect(outcome.errors.contains("in time"), "\(command): \(outcome)")
        }
        server.signal(SIGCONT)
        #expect(registry.portctl("request", "echo", "hello") == Outcome(0, "hello"))
    }

    @Test func `watch ends when nobody reads what it writes`() throws {
        _ = try registry.serve("echo")
        let outcome = registry.shell(#"set -o pipefail; "$0" watch | head -n 1"#)
        // Whoever runs the tests may have had the signal ignored.
        #expect([1, 128 + SIGPIPE].contains(outcome.status))
        #expect(outcome.output.contains("echo"))
    }

    @Test func `a ping shows round trips`() throws {
        let server = try registry.serve("echo")
        let ping = registry.portctl("ping", "echo", "--count", "3", "--interval", "0")
        #expect(ping.status == 0)
        #expect(ping.errors == "")
        let lines = ping.output.components(separatedBy: "\n")
        try #require(lines.count == 9)
        #expect(lines[0] == "PING echo: process \(server.pid)")
        let answer = /answer of process (\d+): seq=(\d) time=\d+\.\d{3} ms/
        for (number, line) in lines[1...3].enumerated() {
            let match = try #require(try answer.wholeMatch(in: line))
            #expect(match.1 == "\(server.pid)")
            #expect(match.2 == "\(number + 1)")
        }
        #expect(lines[6] == "3 sent, 3 answered, 0% lost")
        let json = registry.portctl("ping", "echo", "-c", "1", "--json").output.split(separator: "\n")
        try #require(json.count == 2)
        #expect(json[1].hasPrefix(#"{"sent":1,"answered":1,"min":"#))
        #expect(registry.portctl("ping", "nobody").status == 2)
    }

    @Test func `a ping ends when it is interrupted, or its owner dies`() throws {
        let server = try registry.serve("echo")
        let first = registry.start("ping", "echo", "-i", "100")
        try first.waits(for: "seq=1")
        first.child.signal(SIGINT)
        let outcome = first.outcome
        #expect(outcome.status == 0)
        #expect(outcome.output.contains("1 sent, 1 answered, 0% lost"))
        let second = registry.start("ping", "echo", "-i", "0.01")
        try second.waits(for: "seq=1")
        server.signal(SIGKILL)
        let end = second.outcome
        #expect(end.status == 4)
        #expect(end.output.contains("ping statistics"))
    }

    // MARK: The system

    @Test func `the doctor finds nothing wrong, or says what to do`() throws {
        let well = registry.portctl("doctor")
        #expect(well.status == 0)
        let subjects = well.output.split(separator: "\n").map { $0.split(separator: ":")[0].split(separator: " ")[1] }
        #expect(
            subjects == [
                "directory", "descriptors", "sockets", "libzmq", "leftovers", "notifications", "port", "ports",
            ])
        let findings = try #require(try registry.json("doctor", "--json") as? [[String: Any]])
        #expect(findings.map { $0["check"] as? String } == subjects.map(String.init))

        chmod(registry.path, 0o777)
        let ill = registry.portctl("doctor")
        #expect(ill.status == 1)
        #expect(
            ill.output.contains(
                "error    directory: the registry directory \(registry.path) (from PORTS_DIRECTORY) cannot be trusted"))
        #expect(ill.output.contains("chmod 700"))
        #expect(!ill.output.contains("port:"), "what is wrong is said once")
        #expect(registry.portctl("list").status == 1)
    }

    @Test func `a page that cannot be written is an error before the work, with the remedy`() throws {
        _ = try registry.serve("served")
        let missing = "\(registry.path)/none/page.html"
        for (path, reason) in [(missing, "No such file or directory"), (registry.path, "Is a directory")] {
            let error = "portctl: cannot write “\(path)”: \(reason); name another file with -o\n"
            #expect(registry.portctl("timeline", "served", "--seconds", "60", "-o", path) == Outcome(1, "", error))
            #expect(registry.portctl("map", "-o", path) == Outcome(1, "", error))
        }
        // A reader sees a page, not the end of a look whether it can be written.
        let fifo = "\(registry.path)/../fifo"
        let read = registry.shell(
            "mkfifo '\(fifo)' && { cat '\(fifo)' & timeout 60 \"$0\" map -o '\(fifo)' >&2; wait; }")
        #expect(read.status == 0, "\(read.errors)")
        #expect(read.output.contains("</html>"), "\(read.errors)")
        #expect(registry.portctl("ping", "served", "-n", "1").status == 0)
        #expect(registry.portctl("monitor", "served", "--min-size=-1").status == 64)
    }

    @Test func `a wait for the name of a stopped process ends with the status of a timeout`() throws {
        let stopped = try registry.serve("stopped")
        stopped.stop()
        #expect(registry.portctl("wait", "stopped", "--timeout", "0.5").status == 3)
    }

    @Test(arguments: ["r", "\u{E9} e\u{301}"])
    func `the doctor names a process whose directory was removed`(_ directory: String) throws {
        let registry = Registry(named: directory)
        let server = try registry.serve("hidden")
        #expect(!registry.portctl("doctor").output.contains("hidden:"))
        // Entries that are restored meanwhile make a removal fail.
        #expect(waitUntil { Child(["/bin/rm", "-rf", "--", registry.path]).wait() == 0 })
        let doctor = registry.portctl("doctor")
        #expect(doctor.status == 1)
        #expect(
            doctor.output.contains(
                "error    hidden: process \(server.pid) uses a former directory at \(registry.path), which was removed or "
                    + "moved: nobody finds its names\n         restart the process\n"), "\(doctor.output)")
        server.kill()
        server.wait()
        #expect(!registry.portctl("doctor").output.contains("hidden"))
    }

    @Test(arguments: ["bash", "zsh", "fish"])
    func `shells can complete it`(_ shell: String) throws {
        let script = registry.portctl("--generate-completion-script", shell)
        #expect(script.status == 0)
        #expect(script.output.contains("portctl"))
    }

    @Test func `names in a directory that nobody may write to are listed, and why their owners are not asked`() throws {
        let server = try registry.serve("served")
        let readOnly =
            #"d="$PORTS_DIRECTORY"; mount --bind "$d" "$d" && mount -o remount,bind,ro "$d" && exec "$0" "$@""#
        func portctl(_ words: String) -> Outcome {
            registry.shell("unshare --map-root-user --mount sh -c '\(readOnly)' \"$0\" \(words)")
        }
        let list = portctl("list")
        #expect(list.status == 0)
        #expect(list.errors.contains("cannot ask owners: "))
        #expect(list.errors.contains("Read-only"))
        let row = list.output.split(separator: "\n").last?.split(separator: " ").map(String.init) ?? []
        #expect(row.prefix(2) == ["served", "\(server.pid)"], "\(list.output)")
        #expect(row.contains("?"), "\(list.output)")
        let info = portctl("info served")
        #expect(info.status == 0, "\(info)")
        #expect(info.output.contains("owner     process \(server.pid)"), "\(info)")
        #expect(info.output.contains("portctl cannot ask its owner: "), "\(info)")
    }

    @Test func `a monitor that has shown its count says nothing of an owner that answers`() throws {
        _ = try registry.serve("clock")
        for _ in 0..<3 {
            let shown = registry.start("monitor", "clock", "--count", "1")
            try shown.waitsForError("monitoring clock")
            #expect(registry.portctl("send", "clock", "--id", "5", "hello").status == 0)
            let outcome = shown.outcome
            #expect(outcome.status == 0)
            #expect(
                outcome.errors == "portctl: monitoring clock\nportctl: “clock”: 1 message, 5 bytes\n"
                    || !outcome.errors.contains("answer"), "\(outcome.errors)")
        }
    }
}
