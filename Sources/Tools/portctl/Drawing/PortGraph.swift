import Ports

extension PortDrawing {
    /// A graph for Graphviz: a box around the ports of each process, and an arrow from each sender to each of its ports.
    var dot: String {
        let ports = processes.flatMap(\.ports)
        let nodes = Dictionary(ports.enumerated().map { ($1.id, "port\($0)") }) { first, _ in first }
        let senders = Set(edges.map(\.sender))
        var lines = ["digraph ports {", "rankdir=LR;", "node [shape=box, style=rounded];"]
        for process in processes {
            let title = quoted(process.title)
            if !process.ports.isEmpty { lines.append("subgraph cluster\(process.pid) { label=\(title);") }
            if senders.contains(process.pid) { lines.append("process\(process.pid) [label=\(title), shape=ellipse];") }
            for port in process.ports {
                var text = [port.name]
                if port.condition != .served { text.append(port.state) }
                if let waiting = port.waiting, waiting > 0 { text.append("\(waiting) waiting") }
                let color = port.isInTrouble ? ", color=red, tooltip=\(quoted(port.trouble ?? port.state))" : ""
                lines.append("\(nodes[port.id] ?? "") [label=\(quoted(text))\(color)];")
            }
            for (number, pool) in process.pools.enumerated() {
                lines.append("pool\(process.pid)_\(number) [label=\(quoted(pool)), shape=plaintext];")
            }
            if !process.ports.isEmpty { lines.append("}") }
        }
        for edge in edges {
            guard let node = nodes[edge.port] else { continue }
            let text = ["\(edge.sent)" + (edge.recently > 0 ? " (+\(edge.recently))" : "")] + edge.waits
            lines.append("process\(edge.sender) -> \(node) [label=\(quoted(text))];")
        }
        return (lines + ["}", ""]).joined(separator: "\n")
    }
}

/// Lines as a string of Graphviz. Backslashes and ampersands of names have no meaning in it.
private func quoted(_ lines: String...) -> String { quoted(lines) }

private func quoted(_ lines: [String]) -> String {
    let escapes: [Character: String] = ["\"": "\\\"", "\\": "\\\\", "&": "&amp;"]
    return "\"" + lines.map { $0.escaped.map { escapes[$0] ?? "\($0)" }.joined() }.joined(separator: "\\n") + "\""
}
