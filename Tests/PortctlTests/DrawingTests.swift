import Foundation
import RunLoops
import TestSupport
import Testing

@testable import portctl

/// The pages, from values. With PORTCTL_PAGES=<folder> they are left there, to be looked at.
@Suite struct DrawingTests {
    private static let hostile = "</script><img src=x onerror=alert(1)>\"'&\u{2028}\u{202E}"

    private func keep(_ html: String, _ name: String) throws {
        guard let folder = ProcessInfo.processInfo.environment["PORTCTL_PAGES"] else { return }
        try html.write(toFile: "\(folder)/\(name).html", atomically: true, encoding: .utf8)
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

    @Test(arguments: [0, 10, 1000]) func `a timeline shows totals, slowest callouts and items`(_ passes: Int) throws {
        let recording = recording(passes: passes)
        let html = TimelinePage(subject: "“clock” of process 4711", recordings: [recording]).html
        try keep(html, "timeline-\(passes)")
        #expect(html.contains("<b>\(recording.passes.count)</b><span>passes</span>"))
        #expect(html.hasPrefix("<!DOCTYPE html>"))
        #expect(html.hasSuffix("</html>\n"))
        #expect(!html.contains("src="))
        #expect(!html.contains("href="))
        #expect(html.components(separatedBy: "data-span=\"").count - 1 == min(20, recording.callouts.count))
        if passes > 0 { #expect(html.contains("port “clock” of clockd (pid 4711)")) }
        #expect(html.contains("1234 oldest events") == (passes > 500))
        let data = try #require(
            html.components(separatedBy: "id=\"data\">").last?.components(separatedBy: "</script>").first)
        let drawn = try #require(try JSONSerialization.jsonObject(with: Data(data.utf8)) as? [[String: Any]])
        #expect((drawn[0]["spans"] as? [[Int]])?.count == recording.spans.count)
    }

    @Test func `names are text in a page, whatever they are`() throws {
        var recording = recording(passes: 3, name: Self.hostile)
        recording.loop = Self.hostile
        for index in recording.spans.indices { recording.spans[index].mode = .init(Self.hostile) }
        let map = PortDrawing(
            processes: [
                .init(
                    pid: 1, program: "/bin/\(Self.hostile)",
                    ports: [
                        .init(
                            id: Self.hostile, name: Self.hostile, state: .stuck, details: [Self.hostile],
                            trouble: Self.hostile, remedy: Self.hostile)
                    ])
            ], edges: [.init(sender: 1, port: Self.hostile, sent: 1, waits: Self.hostile)])
        for (name, html) in [
            ("hostile-timeline", TimelinePage(subject: Self.hostile, recordings: [recording]).html),
            ("hostile-map", MapPage(map).html),
        ] {
            try keep(html, name)
            #expect(!html.contains("<img"))
            #expect(!html.contains("\u{2028}"))
            #expect(!html.contains("\u{202E}"))
            // The page's own: the data and the script, or the script alone.
            #expect(html.components(separatedBy: "</script>").count - 1 == (name == "hostile-map" ? 1 : 2))
            #expect(html.contains("&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;"))
        }
    }

    /// Ports of some processes, and clients of them.
    private func drawing(ports: Int, processes: Int, senders: Int) -> PortDrawing {
        let words = ["clock", "store", "index", "session-manager", "com.example.thumbnails.high-priority", "log"]
        var random = SplitMix64(seed: 11)
        let owners = (0..<processes).map { owner in
            PortDrawing.Process(
                pid: 4000 + owner, program: "/usr/libexec/\(words[owner % words.count])d",
                ports: (0..<ports).filter { $0 % processes == owner }.map { number in
                    var port = PortDrawing.Port(id: "\(number)", name: "\(words[number % words.count]).\(number)")
                    port.state = [.served, .served, .served, .unserved, .served, .flooded, .stuck, .silent][number % 8]
                    port.waiting = port.state == .flooded ? 998 : port.state == .served ? 0 : 17
                    port.received = number * 1234
                    port.details = ["Served by the loop of thread 4711 “main”, in mode default."]
                    if port.state.isTrouble {
                        port.trouble = "17 messages wait, and none was taken in a look of 0.5 s"
                        port.remedy = "let handlers return soon"
                    }
                    return port
                })
        }
        let clients = (0..<senders).map { PortDrawing.Process(pid: 9000 + $0, program: "/usr/bin/client-\($0)") }
        let edges = (0..<senders).flatMap { sender in
            Set((0..<min(6, ports)).map { _ in Int.random(in: 0..<ports, using: &random) }).sorted().map { port in
                PortDrawing.Edge(
                    sender: 9000 + sender, port: "\(port)", sent: 10 << (port % 20), recently: port % 5,
                    waits: port % 7 == 0 ? "3 without a reply" : "")
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
        let html = MapPage(drawing).html
        #expect(html == MapPage(drawing).html)
        try keep(html, "map-\(size.ports)")
        #expect(html.components(separatedBy: "<button class=\"row\"").count - 1 == drawing.edges.count)
        #expect(html.components(separatedBy: "<details class=\"row\" data-port=").count - 1 == size.ports)
        #expect(html.contains(">unserved<") == (size.ports > 3))
        #expect(html.contains(">flooded<") == (size.ports > 5))
        #expect(html.contains("id=\"search\"") == (size.ports > 0))
        // The worst comes first.
        let troubles = html.matches(of: /<li><span class="badge ([a-z]+)"/).map { String($0.output.1) }
        #expect(troubles == troubles.sorted { rank($0) < rank($1) })
        #expect(troubles.isEmpty == (size.ports < 4))
    }

    private func rank(_ state: String) -> Int { PortDrawing.State(rawValue: state)?.rank ?? -1 }

    @Test func `a map explains its numbers by one of them`() {
        func html(_ recently: Int) -> String {
            let process = PortDrawing.Process(pid: 1, program: "/bin/x", ports: [.init(id: "1", name: "x")])
            let edge = PortDrawing.Edge(sender: 1, port: "1", sent: 40, recently: recently)
            return MapPage(PortDrawing(processes: [process], edges: [edge])).html
        }
        #expect(
            html(1).contains(
                "<b>40 (+1)</b> means: 40 messages since the sender connected, 1 of them while this map was made."))
        #expect(html(0).contains("The numbers are messages since the sender connected."))
    }

    @Test func `a port that is busy is said to be so in a map, and is in no trouble`() {
        func html(_ state: PortDrawing.State) -> String {
            let port = PortDrawing.Port(id: "1", name: "x", state: state)
            return MapPage(PortDrawing(processes: [.init(pid: 1, program: "/bin/x", ports: [port])], edges: [])).html
        }
        #expect(html(.busy).contains(">busy<"))
        #expect(!html(.busy).contains("Ports in trouble"))
        #expect(!html(.served).contains(">busy<"))
        #expect(html(.stuck).contains("Ports in trouble"))
    }

    @Test func `durations and shares are readable`() {
        let times: [(Duration, String)] = [
            (.zero, "0 ns"), (.nanoseconds(999), "999 ns"), (.nanoseconds(1500), "1.50 µs"),
            (.microseconds(12_340), "12.3 ms"),
            (.milliseconds(123_400), "123 s"),
        ]
        for (time, text) in times { #expect(readable(time) == text) }
        #expect(percent(.milliseconds(1), of: .seconds(10)) == "under 0.1 %")
        #expect(percent(.zero, of: .zero) == "0 %")
        #expect(percent(.seconds(1), of: .seconds(3)) == "33 %")
    }
}
