/// Draws who talks to whom: on the left the processes that send, with a row for each port they send to, and on the right
/// the processes with their ports. Lines run in the space between, so that they cover no text.
struct MapPage {
    let drawing: PortDrawing

    init(_ drawing: PortDrawing) { self.drawing = drawing }

    private static let (rowHeight, headHeight, gap, top) = (24.0, 44.0, 16.0, 34.0)
    private static let (leftWidth, space, rightWidth) = (330.0, 260.0, 560.0)
    private static var rightX: Double { leftWidth + space }

    private struct Box {
        let process: PortDrawing.Process
        var y = 0.0
        let rows: Int
        var height: Double { headHeight + Double(max(rows, 1)) * rowHeight + 6 }
        func middle(ofRow row: Int) -> Double { y + headHeight + (Double(row) + 0.5) * rowHeight }
    }

    var html: String {
        let troubled = drawing.processes.flatMap { process in
            process.ports.filter(\.state.isTrouble).map { (process, $0) }
        }
        let count = drawing.processes.reduce(0) { $0 + $1.ports.count }
        return Page(
            title: "Map of ports",
            body: """
                <h1>Who talks to whom</h1>
                <p class="quiet">\(counted(drawing.processes.count, "process", "processes")), \
                \(counted(count, "named port", "named ports")), \(counted(drawing.edges.count, "connection", "connections")). \
                Point at a row to see its lines.</p>
                \(trouble(troubled))
                <div class="map">\(svg)</div>
                """,
            style: Self.style, script: Self.script
        ).html
    }

    private func counted(_ count: Int, _ one: String, _ many: String) -> String {
        "\(count) \(count == 1 ? one : many)"
    }

    private func trouble(_ ports: [(PortDrawing.Process, PortDrawing.Port)]) -> String {
        if ports.isEmpty { return "" }
        let rows = ports.map { process, port in
            """
            <tr><td><span class="badge \(port.state.rawValue)">\(word(port.state))</span></td><td class="name">\(escaped(port.name))</td>\
            <td class="name">\(escaped(title(process)))</td><td class="name">\(escaped(port.details.last ?? ""))</td></tr>
            """
        }
        return """
            <h2>Ports in trouble</h2><table class="trouble"><thead><tr><th>State</th><th>Port</th><th>Owner</th><th>What is wrong</th></tr></thead>
            <tbody>\(rows.joined(separator: "\n"))</tbody></table><h2>All ports</h2>
            """
    }

    private func word(_ state: PortDrawing.State) -> String {
        switch state {
        case .served: ""
        case .busy: "busy"
        case .slow: "slow"
        case .unserved: "served by nobody"
        case .stuck: "stuck"
        case .flooded: "flooded"
        case .silent: "no answer"
        }
    }

    private func title(_ process: PortDrawing.Process) -> String {
        let program = process.program?.split(separator: "/").last.map(String.init) ?? "unknown program"
        return "\(program) (pid \(process.pid))"
    }

    /// The title, with as much of the program's name as there is room for.
    private func shortTitle(_ process: PortDrawing.Process, toWidth width: Double) -> String {
        let pid = " (pid \(process.pid))"
        return cut(String(title(process).dropLast(pid.count)), toWidth: width - Double(pid.count) * 9, 9) + pid
    }

    // MARK: The drawing

    /// The owners of ports, from top to bottom.
    private var owners: [Box] {
        stacked(drawing.processes.filter { !$0.ports.isEmpty }.map { Box(process: $0, rows: $0.ports.count) })
    }

    private func stacked(_ boxes: [Box]) -> [Box] {
        var y = Self.top
        return boxes.map { box in
            var placed = box
            placed.y = y
            y += box.height + Self.gap
            return placed
        }
    }

    private var svg: String {
        let owners = owners
        var targets: [String: (y: Double, name: String, state: PortDrawing.State)] = [:]
        for box in owners {
            for (row, port) in box.process.ports.enumerated() {
                targets[port.id] = (box.middle(ofRow: row), port.name, port.state)
            }
        }
        // A sender stands about where its ports are, and its rows are in the order of their ports, so that few lines cross.
        let byProcess = Dictionary(grouping: drawing.edges.filter { targets[$0.port] != nil }, by: \.sender)
        func rows(_ pid: Int) -> [PortDrawing.Edge] {
            (byProcess[pid] ?? []).sorted { (targets[$0.port]?.y ?? 0, $0.port) < (targets[$1.port]?.y ?? 0, $1.port) }
        }
        func center(_ pid: Int) -> Double {
            let all = rows(pid).compactMap { targets[$0.port]?.y }
            return all.reduce(0, +) / Double(max(all.count, 1))
        }
        let sending = drawing.processes.filter { byProcess[$0.pid] != nil }
        let senders = stacked(
            sending.map { ($0, center($0.pid)) }.sorted { ($0.1, $0.0.pid) < ($1.1, $1.0.pid) }
                .map { Box(process: $0.0, rows: rows($0.0.pid).count) })
        let height = max(Self.bottom(owners), Self.bottom(senders), 80)
        var (lines, boxes) = ("", "")
        for box in senders {
            boxes += head(box, x: 0, width: Self.leftWidth)
            for (row, edge) in rows(box.process.pid).enumerated() {
                guard let target = targets[edge.port] else { continue }
                let y = box.middle(ofRow: row)
                let key = "\(box.process.pid) \(edge.port)"
                lines += line(from: y, to: target.y, edge, target.state, key: key)
                boxes += self.row(edge, to: target.name, y: y, key: key)
            }
        }
        for box in owners {
            boxes += head(box, x: Self.rightX, width: Self.rightWidth)
            for (row, port) in box.process.ports.enumerated() { boxes += self.row(port, y: box.middle(ofRow: row)) }
        }
        let width = Self.rightX + Self.rightWidth
        return """
            <svg width="\(number(width))" height="\(number(height))" viewBox="-1 0 \(number(width + 2)) \(number(height))" role="img">
            <text class="column" x="0" y="16">Senders, and what they send to</text>
            <text class="column" x="\(number(Self.rightX))" y="16">Processes and their ports</text>
            \(lines)\(boxes)</svg>
            """
    }

    private static func bottom(_ boxes: [Box]) -> Double { boxes.last.map { $0.y + $0.height + gap } ?? 0 }

    private func head(_ box: Box, x: Double, width: Double) -> String {
        """
        <g><title>\(escaped(box.process.program ?? ""))</title>\
        <rect class="box" x="\(number(x))" y="\(number(box.y))" width="\(number(width))" height="\(number(box.height))" rx="6"/>\
        <text class="head" x="\(number(x + 12))" y="\(number(box.y + 26))">\(escaped(shortTitle(box.process, toWidth: width - 24)))</text></g>

        """
    }

    private func row(_ edge: PortDrawing.Edge, to name: String, y: Double, key: String) -> String {
        let count = "\(edge.sent)" + (edge.recently > 0 ? " (+\(edge.recently))" : "")
        let mark = edge.waits.isEmpty ? "" : ", waits"
        let room = Self.leftWidth - 34 - Double((count + mark).count) * 7.4
        let title =
            "\(counted(edge.sent, "message", "messages")) to \(name)"
            + (edge.recently > 0 ? ", \(edge.recently) just now" : "") + (edge.waits.isEmpty ? "" : "; \(edge.waits)")
        return """
            <g class="row" data-key="\(escaped(key))"><title>\(escaped(title))</title>\
            <rect class="hit" x="1" y="\(number(y - 12))" width="\(number(Self.leftWidth - 2))" height="24"/>\
            <text x="12" y="\(number(y + 4))">\(escaped(cut(name, toWidth: room, 7)))</text>\
            <text class="count" text-anchor="end" x="\(number(Self.leftWidth - 12))" y="\(number(y + 4))">\(count)\(mark)</text></g>

            """
    }

    private func row(_ port: PortDrawing.Port, y: Double) -> String {
        let x = Self.rightX
        let counts = [port.waiting.map { "\($0) waiting" }, port.received.map { "\($0) taken" }].compactMap { $0 }
            .joined(separator: ", ")
        let badge = word(port.state)
        let badgeWidth = badge.isEmpty ? 0 : Double(badge.count) * 6.6 + 18
        let room = Self.rightWidth - 46 - Double(counts.count) * 6.8 - badgeWidth
        let drawnBadge =
            badge.isEmpty
            ? ""
            : """
            <rect class="badge \(port.state.rawValue)" x="\(number(x + Self.rightWidth - 10 - badgeWidth))" y="\(number(y - 9))" \
            width="\(number(badgeWidth))" height="18" rx="9"/><text class="badge \(port.state.rawValue)" text-anchor="middle" \
            x="\(number(x + Self.rightWidth - 10 - badgeWidth / 2))" y="\(number(y + 4))">\(badge)</text>
            """
        return """
            <g class="row" data-port="\(escaped(port.id))"><title>\(escaped(lines: [port.name] + port.details))</title>\
            <rect class="hit" x="\(number(x + 1))" y="\(number(y - 12))" width="\(number(Self.rightWidth - 2))" height="24"/>\
            <circle class="dot \(port.state.rawValue)" cx="\(number(x + 14))" cy="\(number(y))" r="4"/>\
            <text x="\(number(x + 26))" y="\(number(y + 4))">\(escaped(cut(port.name, toWidth: room, 7)))</text>\
            <text class="count" text-anchor="end" x="\(number(x + Self.rightWidth - (badgeWidth > 0 ? badgeWidth + 20 : 12)))" \
            y="\(number(y + 4))">\(counts)</text>\(drawnBadge)</g>

            """
    }

    private func line(
        from y: Double, to end: Double, _ edge: PortDrawing.Edge, _ state: PortDrawing.State, key: String
    ) -> String {
        let (x, last) = (Self.leftWidth, Self.rightX)
        let bend = Self.space * 0.5
        // A thousand times as many messages are a line three times as wide.
        var (width, rest) = (1.2, edge.sent)
        while rest >= 10, width < 4 { (width, rest) = (width + 0.5, rest / 10) }
        return """
            <path class="edge \(state.rawValue)" data-key="\(escaped(key))" data-port="\(escaped(edge.port))" \
            stroke-width="\(number(width))" d="M\(number(x)) \(number(y))C\(number(x + bend)) \(number(y)) \
            \(number(last - bend)) \(number(end)) \(number(last)) \(number(end))"/>

            """
    }

    private func number(_ value: Double) -> String {
        value == value.rounded() ? "\(Int(value))" : "\((value * 10).rounded() / 10)"
    }

    /// As much of a text as there is room for, by the usual width of a character.
    private func cut(_ text: String, toWidth width: Double, _ character: Double) -> String {
        let shown = printable(text)
        let room = max(3, Int(width / character))
        // Wide characters take twice the room.
        var (left, kept) = (room, "")
        for next in shown {
            let size = next.unicodeScalars.first.map { $0.value >= 0x1100 ? 2 : 1 } ?? 1
            if left - size < 1 { return kept + "…" }
            left -= size
            kept.append(next)
        }
        return kept
    }

    private static let style = """
        .map { overflow-x: auto; margin-top: 12px; }
        .box { fill: var(--panel); stroke: var(--line); } svg text.head { font-size: 14px; font-weight: 600; }
        svg text.column { fill: var(--quiet); } svg text.count { fill: var(--quiet); font-variant-numeric: tabular-nums; }
        .hit { fill: transparent; } .row:hover .hit, .row.on .hit { fill: var(--line); fill-opacity: .6; }
        .edge { fill: none; stroke: var(--edge); stroke-opacity: .55; } .edge.served { stroke: var(--edge); }
        .edge.unserved, .edge.stuck, .edge.silent { stroke: var(--alarm); } .edge.slow, .edge.flooded { stroke: var(--warning); }
        .edge.on { stroke: var(--accent); stroke-opacity: 1; } svg.chosen .edge:not(.on) { stroke-opacity: .12; }
        .dot { fill: var(--source); } .dot.unserved, .dot.stuck, .dot.silent { fill: var(--alarm); } .dot.slow, .dot.flooded { fill: var(--warning); }
        svg text.badge { fill: var(--alarm); font-size: 11px; font-weight: 600; }
        rect.badge { fill: var(--alarm-ground); } rect.badge.slow, rect.badge.flooded { fill: var(--warning-ground); }
        rect.badge.busy { fill: var(--ground); stroke: var(--line); } svg text.badge.busy { fill: var(--text); }
        svg text.badge.slow, svg text.badge.flooded { fill: var(--warning); }
        span.badge { padding: 1px 9px; border-radius: 9px; font-size: 12px; font-weight: 600; white-space: nowrap;
          color: var(--alarm); background: var(--alarm-ground); }
        .trouble th:nth-child(2) { width: 20%; min-width: 12em; } .trouble th:nth-child(3) { width: 16%; min-width: 9em; }
        span.badge.slow, span.badge.flooded { color: var(--warning); background: var(--warning-ground); } td.name { white-space: pre-line; }
        """

    private static let script = #"""
        "use strict";
        const map = document.querySelector(".map svg");
        const [lines, rows] = [".edge", ".row"].map(kind => [...map.querySelectorAll(kind)]);
        for (const row of rows) {
          const { key, port } = row.dataset;
          const belongs = line => key ? line.dataset.key === key : line.dataset.port === port;
          row.addEventListener("pointerenter", () => {
            const on = lines.filter(belongs);
            on.forEach(line => line.classList.add("on"));
            rows.forEach(other => other.classList.toggle("on", on.some(line =>
              other.dataset.key === line.dataset.key || other.dataset.port === line.dataset.port)));
            map.classList.toggle("chosen", on.length > 0);
          });
          row.addEventListener("pointerleave", () => {
            [...lines, ...rows].forEach(one => one.classList.remove("on"));
            map.classList.remove("chosen");
          });
        }
        """#
}
