import RunLoops

/// Draws recordings of loops: what each has spent its time on, its spans on a line of time, and its slowest callouts.
struct TimelinePage {
    /// What the recordings are of, such as a port's name.
    let subject: String
    let recordings: [LoopRecording]

    private static let rows = 20

    var html: String {
        let sections = recordings.enumerated().map { section($1, number: $0) }.joined(separator: "\n")
        let data = embedded(json(recordings.map(\.drawn)))
        let none = recordings.isEmpty ? "<p>No run loop serves the port.</p>" : ""
        return Page(
            title: "Timeline of \(subject)",
            body: """
                <h1>Timeline of \(escaped(subject))</h1>
                \(none)
                \(sections)
                <div id="tip" role="tooltip" hidden></div>
                <script type="application/json" id="data">\(data)</script>
                """,
            style: Self.style, script: TimelineScript.text
        ).html
    }

    private func section(_ recording: LoopRecording, number: Int) -> String {
        let dropped =
            recording.dropped == 0
            ? "" : "<p class=\"notice\">The \(recording.dropped) oldest events were dropped: record for less time.</p>"
        return """
            <section data-recording="\(number)">
            <h2>Run loop of \(escaped(recording.loop))</h2>
            \(tiles(recording))
            \(dropped)
            \(legend)
            <div class="chart"><noscript>The chart needs scripts. The tables below do without.</noscript></div>
            <p class="quiet hint">Scroll to zoom, drag to move, double-click for the whole. In the strip above, drag to choose a time.</p>
            <div class="tables">
            <div><h2>Slowest callouts</h2>\(slowest(recording))</div>
            <div><h2>Time by item</h2>\(items(recording))</div>
            </div>
            </section>
            """
    }

    private func tiles(_ recording: LoopRecording) -> String {
        let (totals, whole) = (recording.totals, recording.duration)
        let parts = [
            ("asleep", "asleep", totals.asleep), ("in callouts", "callouts", totals.inCallouts),
            ("the loop’s own work", "own", totals.ownWork), ("not running, or unknown", "elsewhere", totals.elsewhere),
        ]
        let bar = parts.filter { $0.2 > .zero }.map { name, style, time in
            """
            <i class="\(style)" style="flex-grow:\(rounded(max(time / whole, 0) * 1000, 2))" \
            title="\(name) \(percent(time, of: whole))"></i>
            """
        }.joined()
        let tiles =
            [("recorded", readable(whole), ""), ("passes", "\(recording.passes.count)", "")]
            + parts.map { ($0.0, percent($0.2, of: whole), $0.1) }
        let boxes = tiles.map { name, value, style in
            let mark = style.isEmpty ? "" : "<i class=\"\(style)\"></i>"
            return "<div class=\"tile\"><b>\(value)</b><span>\(mark)\(name)</span></div>"
        }
        return "<div class=\"tiles\">\(boxes.joined())</div><div class=\"share\">\(bar)</div>"
    }

    private var legend: String {
        let kinds = ["pass", "sleep", "polling"] + LoopRecording.Callout.Kind.allCases.map(\.rawValue)
        let entries = kinds.map { "<span><i style=\"background:var(\(Self.color(of: $0)))\"></i>\($0)</span>" }
        return "<p class=\"legend\">\(entries.joined())</p>"
    }

    private static func color(of kind: String) -> String { kind == "main queue" ? "--queue" : "--\(kind)" }

    private func chip(_ callout: LoopRecording.Callout) -> String {
        let name = callout.label ?? (callout.count > 1 ? "\(callout.count) together" : "without a label")
        let color = Self.color(of: callout.kind.rawValue)
        return
            "<span class=\"chip\" style=\"background:var(\(color))\">\(callout.kind.rawValue)</span> \(escaped(name))"
    }

    private func slowest(_ recording: LoopRecording) -> String {
        let indexed = recording.spans.indices.filter { recording.spans[$0].callout != nil }.sorted {
            recording.spans[$0].duration > recording.spans[$1].duration
        }
        let rows = indexed.prefix(Self.rows).map { index in
            let span = recording.spans[index]
            let marks = [span.isBeginningKnown ? nil : "began before", span.isOver ? nil : "goes on"].compactMap(\.self)
                .joined(separator: ", ")
            return """
                <tr data-span="\(index)" tabindex="0"><td class="name">\(span.callout.map(chip) ?? "") \
                <span class="quiet">\(marks)</span></td><td class="name">\(escaped(span.mode?.rawValue ?? ""))</td>\
                <td class="number">\(readable(recording.start.duration(to: span.start)))</td>\
                <td class="number">\(readable(span.duration))</td></tr>
                """
        }
        return """
            <table class="slowest"><thead><tr><th>Callout</th><th>Mode</th><th class="number">At</th><th class="number">Took</th></tr></thead>
            <tbody>\(rows.joined(separator: "\n"))</tbody></table>
            """
    }

    private func items(_ recording: LoopRecording) -> String {
        struct Sum { var (calls, total, longest) = (0, Duration.zero, Duration.zero) }
        var sums: [LoopRecording.Callout: Sum] = [:]
        for span in recording.spans {
            guard let callout = span.callout else { continue }
            let key = LoopRecording.Callout(callout.kind, label: callout.label)
            var sum = sums[key] ?? Sum()
            sum.calls += callout.count
            sum.total += span.duration
            sum.longest = max(sum.longest, span.duration)
            sums[key] = sum
        }
        let sorted = sums.sorted { ($1.value.total, $0.key.description) < ($0.value.total, $1.key.description) }
        let rows = sorted.prefix(Self.rows).map { callout, sum in
            """
            <tr><td class="name">\(chip(callout))</td><td class="number">\(sum.calls)</td>\
            <td class="number">\(readable(sum.longest))</td><td class="number">\(readable(sum.total))</td>\
            <td class="number">\(percent(sum.total, of: recording.duration))</td></tr>
            """
        }
        return """
            <table><thead><tr><th>Item</th><th class="number">Calls</th><th class="number">Longest</th>\
            <th class="number">Total</th><th class="number">Share</th></tr></thead>
            <tbody>\(rows.joined(separator: "\n"))</tbody></table>
            """
    }

    private static let style = """
        .tiles { display: flex; flex-wrap: wrap; gap: 8px; margin: 8px 0; }
        .tile { border: 1px solid var(--line); border-radius: 6px; padding: 6px 12px; background: var(--panel); }
        .tile b { display: block; font-size: 17px; font-weight: 600; } .tile span { color: var(--quiet); font-size: 12px; }
        .tile i { display: inline-block; width: 9px; height: 9px; border-radius: 2px; margin-right: 5px; }
        .share { display: flex; height: 10px; border-radius: 4px; overflow: hidden; border: 1px solid var(--line); }
        .share i { flex-basis: 0; min-width: 1px; }
        i.asleep { background: var(--sleep); box-shadow: inset 0 0 0 1px var(--line); } i.callouts { background: var(--accent); }
        i.own { background: var(--edge); } i.elsewhere { background: var(--panel); box-shadow: inset 0 0 0 1px var(--line); }
        .notice { color: var(--warning); background: var(--warning-ground); padding: 4px 10px; border-radius: 4px; }
        .legend { display: flex; flex-wrap: wrap; gap: 4px 14px; margin: 12px 0 6px; color: var(--quiet); font-size: 12px; }
        .legend i { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin-right: 5px; vertical-align: -2px;
          box-shadow: inset 0 0 0 1px color-mix(in srgb, var(--text) 18%, transparent); }
        .chart { border: 1px solid var(--line); border-radius: 6px; overflow: hidden; background: var(--ground); }
        .chart svg { width: 100%; touch-action: none; user-select: none; cursor: grab; } .chart svg.strip { cursor: crosshair; }
        .chart noscript { display: block; padding: 12px; }
        .axis { stroke: var(--line); } svg text.tick { fill: var(--quiet); font-size: 11px; }
        svg text.inside { fill: #16191d; font-size: 11px; pointer-events: none; } svg text.plain { fill: var(--text); }
        .window { fill: var(--accent); fill-opacity: .14; stroke: var(--accent); } .span { stroke: var(--ground); stroke-width: .6; }
        .open { stroke: var(--alarm); stroke-width: 1.5; stroke-dasharray: 3 2; }
        .hint { font-size: 12px; margin: 4px 0 0; }
        #tip { position: fixed; z-index: 2; max-width: 420px; padding: 6px 10px; border-radius: 6px; pointer-events: none;
          background: var(--text); color: var(--ground); font-size: 12px; white-space: pre-line; overflow-wrap: anywhere; }
        .tables { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 0 40px; }
        @media (max-width: 520px) { .slowest th:nth-child(2), .slowest td:nth-child(2) { display: none; } .tile { padding: 4px 10px; }
          th, td { padding-right: 8px; } th:last-child, td:last-child { padding-right: 0; } }
        .chip { display: inline-block; padding: 0 7px; border-radius: 9px; font-size: 12px; color: #16191d; white-space: nowrap; }
        tr[data-span] { cursor: pointer; } tr[data-span]:hover, tr[data-span]:focus { background: var(--panel); outline: none; }
        """
}

extension LoopRecording {
    /// What the script draws: the spans with their parts as numbers.
    fileprivate struct Drawn: Encodable {
        let length: Int
        let spans: [[Int]]
        let names: [String]
    }

    fileprivate var drawn: Drawn {
        var (names, numbers): ([String], [String: Int]) = ([], [:])
        func number(of name: String) -> Int {
            if let number = numbers[name] { return number }
            numbers[name] = names.count
            names.append(name)
            return names.count - 1
        }
        let rows = spans.map { span -> [Int] in
            let (kind, name) = span.drawnKindAndName
            return [
                number(of: kind), number(of: name), number(of: span.mode?.rawValue ?? ""), span.depth,
                nanoseconds(start.duration(to: span.start)), nanoseconds(span.duration),
                (span.isBeginningKnown ? 0 : 1) + (span.isOver ? 0 : 2),
            ]
        }
        return Drawn(length: max(1, nanoseconds(duration)), spans: rows, names: names.map(\.escaped))
    }
}

extension LoopRecording.Span {
    fileprivate var drawnKindAndName: (String, String) {
        switch activity {
        case .pass: ("pass", "")
        case .sleep(let sleep): (sleep.isPolling ? "polling" : "sleep", sleep.wakeUp?.rawValue ?? "")
        case .callout(let callout):
            (
                callout.kind == .mainQueue ? "queue" : callout.kind.rawValue,
                callout.label ?? (callout.count > 1 ? "\(callout.count) together" : "")
            )
        }
    }
}
