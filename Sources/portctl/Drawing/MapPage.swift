/// Draws who talks to whom: on the left the processes that send, with a row for each port they send to, and on the right
/// the processes with their ports. Lines run in the space between, so that they cover no text. A narrow window has one
/// column without lines: a port that is opened lists its senders.
struct MapPage {
    let drawing: PortDrawing

    init(_ drawing: PortDrawing) { self.drawing = drawing }

    var html: String {
        let count = drawing.processes.reduce(0) { $0 + $1.ports.count }
        return Page(
            title: "Map of ports",
            body: """
                <h1>Who talks to whom</h1>
                <p class="quiet">\(counted(drawing.processes.count, "process", "processes")), \
                \(counted(count, "named port", "named ports")), \(counted(drawing.edges.count, "connection", "connections")).</p>
                \(troubles)
                \(count == 0 ? "<p>Nobody has a name in this directory.</p>" : map)
                """,
            style: Self.style, script: count == 0 ? "" : MapScript.text
        ).html
    }

    private func counted(_ count: Int, _ one: String, _ many: String) -> String {
        "\(count) \(count == 1 ? one : many)"
    }

    private func title(_ process: PortDrawing.Process) -> String {
        let program = process.program?.split(separator: "/").last.map(String.init) ?? "unknown program"
        return "\(program) (pid \(process.pid))"
    }

    private func badge(_ state: PortDrawing.State) -> String {
        state == .served ? "" : "<span class=\"badge \(state.rawValue)\">\(state.word)</span>"
    }

    // MARK: Troubles

    private var troubles: String {
        let troubled = drawing.processes.flatMap { process in
            process.ports.filter(\.state.isTrouble).map { (process, $0) }
        }
        let items = troubled.sorted { $0.1.state.rank < $1.1.state.rank }.map { process, port in
            """
            <li>\(badge(port.state))<div><a href="#" data-port="\(escaped(port.id))">\(escaped(port.name))</a> \
            <span class="quiet">of \(escaped(title(process)))</span>\
            <p>\(escaped(port.trouble ?? ""))</p>\
            \(port.remedy.map { "<p class=\"quiet\">What to do: \(escaped($0)).</p>" } ?? "")</div></li>
            """
        }
        return items.isEmpty
            ? "" : "<h2>Ports in trouble</h2>\n<ul class=\"troubles\">\n\(items.joined(separator: "\n"))\n</ul>"
    }

    // MARK: The map

    private var map: String {
        let senders = drawing.processes.filter { process in drawing.edges.contains { $0.sender == process.pid } }
        let owners = drawing.processes.filter { !$0.ports.isEmpty }
        let bar = """
            <div class="bar" role="search">
            <input id="search" type="search" placeholder="Search names, programs, states" aria-label="Search names, programs and states">
            <label>Sort by <select id="order"><option value="trouble">trouble</option><option value="name">name</option>\
            <option value="waiting">messages waiting</option><option value="taken">messages taken</option></select></label>
            <output id="found" class="quiet"></output>
            </div>
            <p class="quiet keys"><kbd>/</kbd> searches, <kbd>↑</kbd> <kbd>↓</kbd> go from row to row, <kbd>Enter</kbd> opens a port, \
            <kbd>Esc</kbd> shows all.</p>
            """
        return """
            \(bar)
            <div class="map" id="map">
            <svg aria-hidden="true"></svg>
            <section class="owners"><h2>Processes and their ports</h2>
            \(owners.map(owner).joined(separator: "\n"))
            </section>
            <section class="senders"><h2>Senders, and what they send to</h2>
            \(legend)
            \(senders.map(sender).joined(separator: "\n"))
            </section>
            </div>
            """
    }

    /// What the numbers mean, by the first example in the map.
    private var legend: String {
        guard let edge = drawing.edges.first(where: { $0.recently > 0 }) else {
            return "<p class=\"quiet legend\">The numbers are messages since the sender connected.</p>"
        }
        return """
            <p class="quiet legend"><b>\(count(edge))</b> means: \(counted(edge.sent, "message", "messages")) since the sender \
            connected, \(edge.recently) of them while this map was made.</p>
            """
    }

    private func count(_ edge: PortDrawing.Edge) -> String {
        "\(edge.sent)" + (edge.recently > 0 ? " (+\(edge.recently))" : "")
    }

    private func head(_ process: PortDrawing.Process) -> String {
        "<h3 title=\"\(escaped(process.program ?? ""))\">\(escaped(title(process)))</h3>"
    }

    private func sender(_ process: PortDrawing.Process) -> String {
        let names = drawing.names
        let rows = drawing.edges.filter { $0.sender == process.pid }.compactMap { edge in
            names[edge.port].map { name in
                """
                <button class="row" type="button" data-port="\(escaped(edge.port))" data-sent="\(edge.sent)" \
                title="\(escaped(sentence(edge, to: name)))"><span class="name">\(escaped(name))</span>\
                <span class="count">\(count(edge))\(edge.waits.isEmpty ? "" : " <em>waits</em>")</span></button>
                """
            }
        }
        return """
            <div class="process" data-text="\(escaped(title(process)))">\(head(process))
            \(rows.joined(separator: "\n"))
            </div>
            """
    }

    private func sentence(_ edge: PortDrawing.Edge, to name: String) -> String {
        "\(counted(edge.sent, "message", "messages")) to \(name)"
            + (edge.recently > 0 ? ", \(edge.recently) of them just now" : "")
            + (edge.waits.isEmpty ? "" : "; \(edge.waits)")
    }

    private func owner(_ process: PortDrawing.Process) -> String {
        """
        <div class="process" data-text="\(escaped(title(process)))">\(head(process))
        \(process.ports.map(port).joined(separator: "\n"))
        </div>
        """
    }

    private func port(_ port: PortDrawing.Port) -> String {
        let counts = [port.waiting.flatMap { $0 > 0 ? "\($0) waiting" : nil }, port.received.map { "\($0) taken" }]
            .compactMap(\.self)
        let senders = drawing.edges.filter { $0.port == port.id }.compactMap { edge in
            drawing.processes.first { $0.pid == edge.sender }.map { process in
                let waits = edge.waits.isEmpty ? "" : ", \(edge.waits)"
                return "<li>\(escaped(title(process))): \(count(edge))\(escaped(waits))</li>"
            }
        }
        let lines =
            port.details.map { "<p>\(escaped($0))</p>" }
            + [
                port.trouble.map { "<p class=\"trouble\">\(escaped($0))</p>" },
                port.remedy.map { "<p>What to do: \(escaped($0)).</p>" },
            ]
            .compactMap { $0 }
        return """
            <details class="row" data-port="\(escaped(port.id))" data-name="\(escaped(port.name))" data-state="\(port.state.rawValue)" \
            data-rank="\(port.state.rank)" data-waiting="\(port.waiting ?? 0)" data-taken="\(port.received ?? 0)">\
            <summary><i class="dot \(port.state.rawValue)"></i><span class="name">\(escaped(port.name))</span>\
            <span class="count">\(counts.joined(separator: ", "))</span>\(badge(port.state))</summary>
            \(lines.joined(separator: "\n"))
            \(senders.isEmpty ? "<p class=\"quiet\">\((port.received ?? 0) > 0 ? "Its senders have ended." : "Nobody has sent to it.")</p>" : "<p class=\"quiet\">Senders, with their messages:</p><ul>\(senders.joined())</ul>")
            </details>
            """
    }

    private static let style = """
        a { color: var(--accent); }
        .troubles { list-style: none; margin: 0; padding: 0; border-top: 1px solid var(--line); }
        .troubles li { display: grid; grid-template-columns: 6.5em 1fr; gap: 4px 12px; padding: 8px 0; border-bottom: 1px solid var(--line); }
        .troubles div { overflow-wrap: anywhere; min-width: 0; } .troubles a { font-weight: 600; }
        .bar { display: flex; flex-wrap: wrap; gap: 8px 16px; align-items: center; margin: 24px 0 4px; }
        .bar input, .bar select { font: inherit; color: var(--text); background: var(--ground); border: 1px solid var(--line);
          border-radius: 6px; padding: 5px 10px; }
        .bar input { flex: 1 1 200px; max-width: 360px; min-width: 0; } .keys { font-size: 12px; }
        kbd { font: inherit; border: 1px solid var(--line); border-radius: 4px; padding: 0 5px; background: var(--panel); }
        .map { position: relative; display: grid; grid-template-columns: minmax(260px, 1fr) minmax(90px, 220px) minmax(380px, 1.7fr);
          align-items: start; margin-top: 4px; }
        .map > svg { position: absolute; inset: 0; width: 100%; height: 100%; pointer-events: none; }
        .senders { grid-column: 1; grid-row: 1; } .owners { grid-column: 3; grid-row: 1; }
        .map > section { min-width: 0; position: relative; }
        .map h2 { margin: 12px 0 6px; font-size: 13px; font-weight: 500; color: var(--quiet); }
        .legend { font-size: 12px; margin: -2px 0 8px; } .legend b { color: var(--text); }
        .process { border: 1px solid var(--line); border-radius: 8px; background: var(--panel); margin-bottom: 12px; padding: 4px 0; }
        h3 { font-size: 14px; margin: 0; padding: 6px 12px; overflow-wrap: anywhere; }
        button.row { display: flex; width: 100%; border: 0; background: none; font: inherit; color: inherit; text-align: left; cursor: pointer; }
        button.row, summary { gap: 4px 10px; padding: 4px 12px; align-items: baseline; }
        summary { display: flex; flex-wrap: wrap; cursor: pointer; list-style: none; } summary::-webkit-details-marker { display: none; }
        .name { flex: 1 1 0; min-width: 0; overflow-wrap: anywhere; } summary .name { flex-basis: 10em; }
        .count { color: var(--quiet); font-size: 12px; font-variant-numeric: tabular-nums; white-space: nowrap; }
        .count em { font-style: normal; color: var(--warning); }
        details > :not(summary) { margin: 4px 12px 4px 32px; overflow-wrap: anywhere; white-space: pre-line; font-size: 13px; }
        details[open] { border-bottom: 1px solid var(--line); padding-bottom: 6px; } details ul { padding-left: 18px; }
        button.row.on, button.row:hover, .on > summary, summary:hover { background: color-mix(in srgb, var(--line) 55%, transparent); }
        button.row:focus-visible, summary:focus-visible, a:focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; border-radius: 4px; }
        .edge { fill: none; stroke: var(--edge); stroke-opacity: .5; }
        .edge.unserved, .edge.stuck, .edge.silent { stroke: var(--alarm); stroke-opacity: .8; } .edge.slow, .edge.flooded { stroke: var(--warning); stroke-opacity: .8; }
        .edge.on { stroke: var(--accent); stroke-opacity: 1; } svg.chosen .edge:not(.on) { stroke-opacity: .12; }
        .dot { flex: none; width: 8px; height: 8px; border-radius: 50%; background: var(--source); align-self: center; }
        .dot.unserved, .dot.stuck, .dot.silent { background: var(--alarm); } .dot.slow, .dot.flooded { background: var(--warning); }
        .dot.busy { background: var(--accent); }
        .badge { justify-self: start; align-self: start; padding: 1px 9px; border-radius: 9px; font-size: 12px; font-weight: 600; white-space: nowrap;
          color: var(--alarm); background: var(--alarm-ground); }
        .badge.slow, .badge.flooded { color: var(--warning); background: var(--warning-ground); }
        .badge.busy { color: var(--text); background: var(--ground); box-shadow: inset 0 0 0 1px var(--line); }
        [hidden] { display: none !important; }
        @media (max-width: 820px) {
          .map { display: block; } .map > svg, .keys { display: none; }
          .troubles li { grid-template-columns: 1fr; } summary .badge { margin-left: 18px; }
        }
        @media print { .bar, .keys { display: none; } }
        """
}
