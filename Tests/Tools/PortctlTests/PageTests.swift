import Foundation
import OwnThread
import TestSupport
import Testing

/// The commands that write pages, as a user runs them.
@Suite(.ownThread) struct PageTests {
    private let registry = Registry()
    private let folder = TemporaryFolder()

    @Test func `the loop of another process is recorded and drawn`() throws {
        let server = try registry.serve("a <b>")
        let path = folder.path + "/page.html"
        let outcome = registry.portctl("timeline", "a <b>", "--seconds", "0.2", "-o", path)
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(outcome.output.hasSuffix("wrote \(path): open it in a browser\n"))
        let page = try String(contentsOfFile: path, encoding: .utf8)
        #expect(page.contains(#""subject":"“a \u003cb\u003e” of process \#(server.pid)""#))
        #expect(page.contains("<b "))
        #expect(!page.contains("a <b>"))

        let running = registry.start("timeline", "a <b>", "--seconds", "2", "--json")
        let request = registry.portctl("request", "a <b>", "hello")
        #expect(request.status == 0)
        let outcomeOfRunning = running.outcome
        let recordings = try #require(
            try JSONSerialization.jsonObject(with: Data(outcomeOfRunning.output.utf8)) as? [[String: Any]])
        let spans = try #require(recordings.first?["spans"] as? [[String: Any]])
        #expect(spans.contains { $0["activity"] as? String == "sleep" })

        #expect(registry.portctl("timeline", "nobody").status == 2)
        _ = try registry.serve("no loop", as: "hold")
        let none = registry.portctl("timeline", "no loop", "--seconds", "60", "-o", path)
        #expect(none.status == 1)
        #expect(none.output == "")
        #expect(none.errors.contains("it is unserved"))
        let unwritten = registry.portctl("timeline", "a <b>", "--seconds", "0", "-o", "/nowhere/page.html")
        #expect(unwritten.status == 1)
        #expect(unwritten.errors.contains("/nowhere/page.html"))
    }

    @Test func `a trace has the messages of the port, with arrows to the callouts that took them`() throws {
        let server = try registry.serve("clock")
        let running = registry.start("timeline", "clock", "--seconds", "3", "--format", "perfetto")
        let asker = registry.start("request", "clock", "--id", "5", "hello")
        #expect(asker.outcome.status == 0)
        // The recording may begin after any of the requests.
        while running.child.isRunning { _ = registry.portctl("request", "clock", "--id", "5", "hello") }
        let outcome = running.outcome
        #expect(outcome.status == 0, "\(outcome.errors)")
        let trace = try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any]
        let events = try #require(trace?["traceEvents"] as? [[String: Any]])
        let messages = events.filter { $0["cat"] as? String == "message" }
        #expect(messages.contains { $0["name"] as? String == "request id 5" })
        let starts = messages.filter { $0["ph"] as? String == "s" }
        let ends = messages.filter { $0["ph"] as? String == "f" }
        #expect(!starts.isEmpty)
        #expect(starts.compactMap { $0["id"] as? Int } == ends.compactMap { $0["id"] as? Int })
        #expect(ends.allSatisfy { $0["pid"] as? Int32 == server.pid })
    }

    @Test func `the ports of all processes are drawn`() throws {
        let servers = try ["a <b>", "c"].map { try registry.serve($0) }
        let outcome = registry.portctl("map", "-o", "-")
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(outcome.output.hasPrefix("<!DOCTYPE html>"))
        #expect(outcome.output.contains(#""name":"a \u003cb\u003e""#))
        for server in servers { #expect(outcome.output.contains("(pid \(server.pid))")) }
        let dot = registry.portctl("map", "--format", "dot")
        #expect(dot.status == 0)
        #expect(dot.output.contains(#"[label="a <b>"];"#))
        #expect(registry.portctl("map", "--format", "svg").status == 64)
        let map = try #require(try registry.json("map", "--json") as? [String: Any])
        #expect(try registry.json("map", "--format", "json") is [String: Any])
        #expect(try registry.json("map", "--format", "json", "--json") is [String: Any])
        #expect((map["ports"] as? [[String: Any]])?.count == 2)
        #expect((map["processes"] as? [[String: Any]])?.contains { $0["pid"] as? Int32 == servers[0].pid } == true)
    }

    @Test(arguments: [["map", "--format", "dot"], ["timeline", "nobody", "--format", "perfetto"]])
    func `formats that contradict each other are wrong usage`(_ command: [String]) {
        let outcome = registry.start(command + ["--json"]).outcome
        #expect(outcome.status == 64)
        #expect(outcome.output == "")
        #expect(outcome.errors.contains("--format \(command.last ?? "") and --json"), "\(outcome.errors)")
    }
}
