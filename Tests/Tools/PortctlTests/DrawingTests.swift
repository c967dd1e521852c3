import Foundation
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import portctl

/// The pages, from values. With PORTCTL_PAGES=<folder> they are left there, to be looked at. Where there is a browser, its
/// document is checked, too.
@Suite(.ownThread) struct DrawingTests {
    private static let hostile = "</script><img src=x onerror=alert(1)>\"'&\u{2028}\u{202E}"

    private func keep(_ html: String, _ name: String) throws {
        guard let folder = ProcessInfo.processInfo.environment["PORTCTL_PAGES"] else { return }
        try html.write(toFile: "\(folder)/\(name).html", atomically: true, encoding: .utf8)
    }

    private func timeline(_ subject: String, _ recording: LoopRecording) -> String {
        let drawing = LoopsDrawing(subject: subject, recordings: [recording])
        return Page.timeline.html(of: drawing, text: drawing.text)
    }

    /// The data in a page.
    private func content(of html: String) throws -> [String: Any] {
        let data = try #require(
            html.components(separatedBy: "id=\"data\">").last?.components(separatedBy: "</script>").first)
        let filling = try #require(try JSONSerialization.jsonObject(with: Data(data.utf8)) as? [String: Any])
        #expect(filling["made"] is String)
        #expect(filling["host"] is String)
        return try #require(filling["content"] as? [String: Any])
    }

    /// Passes of a loop that sleeps, serves a port, fires a timer, and now and then runs another mode.
    private func recording(passes: Int, name: String = "port “clock” of clockd (pid 4711)") -> LoopRecording {
        var random = SplitMix64(seed: 7)
        var now: UInt64 = 1_000_000
        var spans: [LoopRecording.Span] = []
        func add(
            _ activity: LoopRecording.Activity, _ depth: Int, _ microseconds: UInt64, mode: String = "default",
            isOver: Bool = true, at start: UInt64
        ) {
            spans.append(
                .init(
                    activity, mode: .init(mode), depth: depth, start: .init(nanoseconds: start),
                    end: .init(nanoseconds: start + microseconds * 1000), isOver: isOver))
        }
        for pass in 0..<passes {
            let sleep = UInt64.random(in: 10...4000, using: &random)
            let work = UInt64.random(in: 5...200, using: &random) * (pass % 97 == 3 ? 60 : 1)
            let isModal = pass % 50 == 7
            add(.pass, 0, sleep + work + 30, at: now)
            let wakeUp: LoopRecording.WakeUp = pass % 3 == 0 ? .timer : pass % 3 == 1 ? .source : .wakeUp
            add(.sleep(.init(wakeUp)), 1, sleep, at: now + 10_000)
            let start = now + 10_000 + sleep * 1000
            let kinds: [LoopRecording.Callout] = [
                .init(.timer, label: "refresh"), .init(.source, label: name), .init(.block, count: 12), .init(.task),
                .init(.observer, label: "commit"), .init(.mainQueue),
            ]
            add(.callout(kinds[pass % kinds.count]), 1, work, isOver: pass < passes - 1, at: start)
            if isModal, work > 40 {
                add(.pass, 2, work - 10, mode: "modal", at: start + 5000)
                add(.sleep(.init(.timeLimit)), 3, (work - 10) / 2, mode: "modal", at: start + 6000)
                add(.callout(.init(.timer, label: "inner")), 3, 5, mode: "modal", at: start + 6000 + (work - 10) * 500)
            }
            now = start + work * 1000 + 20_000
        }
        return LoopRecording(
            loop: "thread 4711", start: .init(nanoseconds: 1_000_000), end: .init(nanoseconds: now), spans: spans,
            dropped: passes > 500 ? 1234 : 0)
    }

    @Test(arguments: [0, 10, 1000]) func `a timeline has all spans of a recording, and loads nothing`(
        _ passes: Int
    ) throws {
        let recording = recording(passes: passes)
        let html = timeline("“clock” of process 4711", recording)
        try keep(html, "timeline-\(passes)")
        #expect(html.hasPrefix("<!DOCTYPE html>"))
        #expect(html.hasSuffix("</html>\n"))
        #expect(!html.contains("src="))
        #expect(!html.contains("href="))
        let content = try content(of: html)
        #expect(content["subject"] as? String == "“clock” of process 4711")
        let drawn = try #require((content["recordings"] as? [[String: Any]])?.first)
        let spans = try #require(drawn["spans"] as? [[String: Any]])
        #expect(spans.count == recording.spans.count)
        #expect(drawn["dropped"] as? Int == recording.dropped)
        #expect(spans.contains { $0["label"] as? String == "port “clock” of clockd (pid 4711)" } == (passes > 0))
    }

    @Test func `a timeline has its totals and items as text for a browser without JavaScript`() throws {
        let html = timeline("“clock” of process 4711", recording(passes: 12))
        let text = try #require(html.components(separatedBy: "<pre>").last?.components(separatedBy: "</pre>").first)
        #expect(text.hasPrefix("run loop of thread 4711: 13 passes in "))
        let rows = text.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        #expect(rows.contains(["ITEM", "LABEL", "CALLS", "LONGEST", "TOTAL"]))
        #expect(rows.contains { $0.starts(with: ["timer", "refresh", "2"]) }, "\(text)")
        #expect(rows.contains { $0.starts(with: ["block", "24"]) }, "\(text)")
    }

    @Test(.enabled(if: Browser.isThere), arguments: [0, 10, 1000])
    func `a timeline shows totals, slowest callouts and items`(_ passes: Int) throws {
        let recording = recording(passes: passes)
        let html = try Browser.html(of: timeline("“clock” of process 4711", recording))
        #expect(html.contains("<title>Timeline of “clock” of process 4711</title>"))
        #expect(html.contains("<b data-fill=\"passes\">\(recording.passes.count)</b>"))
        #expect(html.components(separatedBy: "tabindex=\"0\"").count - 1 == min(20, recording.callouts.count))
        if passes > 0 { #expect(html.contains("port “clock” of clockd (pid 4711)")) }
        #expect(html.contains(">1234</span> oldest events") == (passes > 500))
    }

    @Test(.enabled(if: Browser.isThere)) func `shares are readable`() throws {
        var recording = LoopRecording(
            loop: "thread 1", start: .init(nanoseconds: 0), end: .init(nanoseconds: 3_000_000_000), spans: [])
        recording.spans = [(0, 1_000_000_000), (1_000_000_000, 1_001_500)].map { start, length in
            .init(
                start == 0 ? .sleep(.init()) : .callout(.init(.timer)), mode: nil, depth: 0,
                start: .init(nanoseconds: start), end: .init(nanoseconds: start + length))
        }
        let html = try Browser.html(of: timeline("“x”", recording))
        for text in ["recorded\">3.00 s<", "asleep\">33 %<", "inCallouts\">under 0.1 %<", "ownWork\">0 %<"] {
            #expect(html.contains(text), "\(text)")
        }
        #expect(html.contains(">1.00 ms</td>"))
    }

    @Test func `names are text in a page, whatever they are`() throws {
        var recording = recording(passes: 3, name: Self.hostile)
        recording.loop = Self.hostile
        for index in recording.spans.indices { recording.spans[index].mode = .init(Self.hostile) }
        let map = PortDrawing(
            processes: [
                .init(
                    pid: 1, title: Self.hostile, path: "/bin/\(Self.hostile)",
                    ports: [
                        .init(
                            id: Self.hostile, name: Self.hostile, state: "stuck", details: [Self.hostile],
                            trouble: Self.hostile, remedy: Self.hostile)
                    ])
            ], edges: [.init(sender: 1, port: Self.hostile, sent: 1, waits: [Self.hostile])])
        for (name, html) in [
            ("hostile-timeline", timeline(Self.hostile, recording)), ("hostile-map", Page.map.html(of: map)),
        ] {
            try keep(html, name)
            #expect(!html.contains("<img"))
            #expect(!html.contains("\u{2028}"))
            #expect(!html.contains("\u{202E}"))
            // The page's own elements: the data and two scripts.
            #expect(html.components(separatedBy: "</script>").count - 1 == 3)
            #expect(html.contains(#"\u003cimg src=x onerror=alert(1)\u003e\"'\u0026\\u{2028}\\u{202E}"#))
            if Browser.isThere {
                let shown = try Browser.html(of: html)
                #expect(!shown.contains("<img"))
                #expect(shown.contains("&lt;img src=x onerror=alert(1)&gt;\"'&amp;\\u{2028}\\u{202E}</"))
            }
        }
        let dot = map.dot
        #expect(dot.contains(#"<img src=x onerror=alert(1)>\"'&amp;\\u{2028}\\u{202E}""#), "\(dot)")
    }

    private static let states = ["served", "served", "served", "unserved", "served", "flooded", "stuck", "silent"]

    /// Ports of some processes, and clients of them.
    private func drawing(ports: Int, processes: Int, senders: Int) -> PortDrawing {
        let words = ["clock", "store", "index", "session-manager", "com.example.thumbnails.high-priority", "log"]
        var random = SplitMix64(seed: 11)
        let owners = (0..<processes).map { owner in
            PortDrawing.Process(
                pid: 4000 + owner, title: "\(words[owner % words.count])d (pid \(4000 + owner))",
                ports: (0..<ports).filter { $0 % processes == owner }.map { number in
                    var port = PortDrawing.Port(id: "\(number)", name: "\(words[number % words.count]).\(number)")
                    port.state = Self.states[number % 8]
                    port.waiting = port.state == "flooded" ? 998 : port.state == "served" ? 0 : 17
                    port.taken = number * 1234
                    port.details = ["Served by the loop of thread 4711 “main”, in mode default."]
                    if port.isInTrouble {
                        port.trouble = "17 messages wait, and none was taken in a look of 0.5 s"
                        port.remedy = "let handlers return soon"
                    }
                    return port
                })
        }
        let clients = (0..<senders).map {
            PortDrawing.Process(pid: 9000 + $0, title: "client-\($0) (pid \(9000 + $0))")
        }
        let edges = (0..<senders).flatMap { sender in
            Set((0..<min(6, ports)).map { _ in Int.random(in: 0..<ports, using: &random) }).sorted().map { port in
                PortDrawing.Edge(
                    sender: 9000 + sender, port: "\(port)", sent: 10 << (port % 20), recently: port % 5,
                    waits: port % 7 == 0 ? ["3 without a reply"] : [])
            }
        }
        // Services talk to each other, too.
        let inner = (1..<max(1, min(processes, ports))).map {
            PortDrawing.Edge(sender: 4000 + $0, port: "\($0 - 1)", sent: $0 * 77)
        }
        return PortDrawing(processes: owners + clients, edges: edges + inner)
    }

    @Test(arguments: [(3, 2, 2), (50, 12, 20), (0, 0, 0)])
    func `a map has a row for each port and each connection, and its troubles first`(
        _ size: (ports: Int, processes: Int, senders: Int)
    ) throws {
        let drawing = drawing(ports: size.ports, processes: size.processes, senders: size.senders)
        let page = Page.map.html(of: drawing)
        try keep(page, "map-\(size.ports)")
        let content = try content(of: page)
        #expect((content["edges"] as? [Any])?.count == drawing.edges.count)
        let processes = try #require(content["processes"] as? [[String: Any]])
        #expect(processes.flatMap { $0["ports"] as? [Any] ?? [] }.count == size.ports)
        guard Browser.isThere else { return }
        let html = try Browser.html(of: page)
        #expect(html.components(separatedBy: "<button class=\"handle\"").count - 1 == drawing.edges.count)
        #expect(html.components(separatedBy: "<details class=").count - 1 == size.ports)
        #expect(html.components(separatedBy: "<path class=").count - 1 == drawing.edges.count)
        #expect(html.contains(">unserved<") == (size.ports > 3))
        #expect(html.contains(">flooded<") == (size.ports > 5))
        #expect(html.contains("<main>") == (size.ports > 0))
        // The worst comes first.
        let troubles = html.matches(of: /<li class=""><span class="badge ([a-z]+)"/).map { String($0.output.1) }
        let ranks = troubles.map { ["stuck", "unserved", "silent", "flooded"].firstIndex(of: $0) ?? -1 }
        #expect(ranks == ranks.sorted())
        #expect(troubles.isEmpty == (size.ports < 4))
    }

    private func map(_ state: String = "served", recently: Int = 0) throws -> String {
        let port = PortDrawing.Port(id: "1", name: "x", state: state)
        let pools = ["Pool “y”: 1 of 2 busy."]
        let process = PortDrawing.Process(pid: 1, title: "x (pid 1)", ports: [port], pools: pools)
        let edge = PortDrawing.Edge(sender: 1, port: "1", sent: 40, recently: recently)
        return try Browser.html(of: Page.map.html(of: PortDrawing(processes: [process], edges: [edge])))
    }

    @Test(.enabled(if: Browser.isThere)) func `a map explains its numbers by one of them`() throws {
        let html = try map(recently: 1)
        #expect(html.contains(">40 (+1)</b>"))
        #expect(html.contains(">Pool “y”: 1 of 2 busy.</p>"))
        #expect(
            html.contains(" means: 40 messages since the sender connected, 1 of them while this map was made."))
        #expect(try map().contains("The numbers are messages since the sender connected."))
    }

    @Test(.enabled(if: Browser.isThere))
    func `a port that is busy is said to be so in a map, and is in no trouble`() throws {
        let troubles = "<section id=\"troubles\">"
        let (busy, served) = (try map("busy"), try map())
        #expect(busy.contains(">busy<"))
        #expect(!busy.contains(troubles))
        #expect(!served.contains(">busy<"))
        for (state, word) in [
            ("stuck", "stuck"), ("stopped", "stopped"), ("silent", "no answer"),
        ] {
            let html = try map(state)
            #expect(html.contains(troubles))
            #expect(html.contains(">\(word)<"))
        }
        let unknown = try map("unknown")
        #expect(unknown.contains(">unknown<") && !unknown.contains(troubles))
    }

    // MARK: Other formats

    @Test func `a graph has a box for each owner, and an arrow for each connection`() throws {
        let drawing = drawing(ports: 50, processes: 12, senders: 20)
        let dot = drawing.dot
        #expect(dot.components(separatedBy: "subgraph cluster").count - 1 == 12)
        #expect(dot.components(separatedBy: " -> ").count - 1 == drawing.edges.count)
        #expect(dot.contains(#"[label="index.26\nstuck\n17 waiting", color=red"#) == false)
        #expect(dot.contains(#"[label="log.5\nflooded\n998 waiting", color=red"#))
        let hasGraphviz = FileManager.default.isExecutableFile(atPath: "/usr/bin/dot")
        if hasGraphviz {
            let run = Run(["/usr/bin/dot", "-Tplain"], environment: [:], input: Array(dot.utf8))
            let outcome = run.outcome
            #expect(outcome.status == 0)
            #expect(outcome.output.components(separatedBy: "\nedge ").count - 1 == drawing.edges.count)
        }
    }

    @Test func `a trace has a slice for each span of a loop`() throws {
        let recording = recording(passes: 10)
        let trace = LoopTrace(of: "clock", owner: 4711, recordings: [recording])
        let object = try JSONSerialization.jsonObject(with: Data(json(trace).utf8)) as? [String: Any]
        let events = try #require(object?["traceEvents"] as? [[String: Any]])
        let slices = events.filter { $0["ph"] as? String == "X" }
        #expect(slices.count == recording.spans.count)
        #expect(slices.allSatisfy { $0["ts"] is NSNumber })
        #expect(slices.allSatisfy { $0["pid"] as? Int == 4711 })
        #expect(slices.first?["dur"] as? Double == recording.spans[0].duration / .microseconds(1))
        let names = events.filter { $0["ph"] as? String == "M" }.compactMap { $0["args"] as? [String: String] }
        #expect(names == [["name": "owner of clock"], ["name": "run loop of thread 4711"]])
    }

    @Test func `durations are readable`() {
        let times: [(Duration, String)] = [
            (.zero, "0 ns"), (.nanoseconds(999), "999 ns"), (.nanoseconds(1500), "1.50 µs"),
            (.microseconds(12_340), "12.3 ms"),
            (.milliseconds(123_400), "123 s"),
        ]
        for (time, text) in times { #expect(readable(time) == text) }
    }
}
