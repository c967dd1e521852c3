/// A chart of a run's main figures: a panel of bars for each work, legible on a light and on a dark ground.
struct Chart {
    private let panels: [Figure]
    private let caption: String

    /// What the chart shows, where the run has it.
    private static let works = ["one way", "round trip p50"]
    private static let payload = 1 << 10

    /// Nil if the run has nothing to show.
    init?(_ report: Report) {
        panels = report.figures.filter {
            Self.works.contains($0.work) && $0.payload == Self.payload && $0.variant == nil
                && $0.series.contains { $0.median != nil }
        }
        guard !panels.isEmpty else { return nil }
        caption =
            "\(byteCount(Self.payload)) a message; median of \(report.rounds) rounds. \(report.date), \(report.machine)"
    }

    private static let (width, labels, values, line, gap) = (860, 190, 120, 22, 34)

    var svg: String {
        var body = ""
        var y = 12
        for panel in panels {
            body += text(panel.heading, x: 12, y: y + 14, class: "title")
            y += Self.gap
            // Every panel has its own scale, and each begins at 0.
            let most = panel.series.compactMap(\.median).max() ?? 0
            for (index, series) in panel.series.enumerated() {
                guard let median = series.median, median > 0 else { continue }
                let room = Double(Self.width - Self.labels - Self.values)
                let length = max(Int(room * median / most), 2)
                body += text(series.name, x: Self.labels - 8, y: y + 13, class: "label")
                body += """
                    <rect class="\(index == 0 ? "ours" : "theirs")" x="\(Self.labels)" y="\(y)" width="\(length)" \
                    height="\(Self.line - 6)" rx="2"/>

                    """
                let value = panel.unit.isRate ? rounded(median) : formatted(median, digits: panel.unit.digits)
                body += text(value, x: Self.labels + length + 6, y: y + 13, class: "value")
                y += Self.line
            }
            y += 14
        }
        body += text(caption, x: 12, y: y + 8, class: "note")
        return """
            <svg xmlns="http://www.w3.org/2000/svg" width="\(Self.width)" height="\(y + 22)" \
            viewBox="0 0 \(Self.width) \(y + 22)" role="img">
            <title>swift-ports beside what people would use instead</title>
            <style>
            text { font: 13px system-ui, sans-serif; fill: #1f2328; }
            .title { font-weight: 600; }
            .label { text-anchor: end; }
            .note { font-size: 11px; }
            .ours { fill: #0969da; }
            .theirs { fill: #8c959f; }
            @media (prefers-color-scheme: dark) {
            text { fill: #e6edf3; }
            .ours { fill: #4493f8; }
            .theirs { fill: #6e7681; }
            }
            </style>
            \(body)</svg>

            """
    }

    /// A rate with the digits that another run would have, too.
    private func rounded(_ rate: Double) -> String {
        rate < 1e6 ? "\(formatted(rate / 1e3, digits: 0)) thousand" : "\(formatted(rate / 1e6, digits: 1)) million"
    }

    private func text(_ text: String, x: Int, y: Int, class style: String) -> String {
        let escaped = text.map { ["&": "&amp;", "<": "&lt;", ">": "&gt;"][$0] ?? String($0) }.joined()
        return "<text class=\"\(style)\" x=\"\(x)\" y=\"\(y)\">\(escaped)</text>\n"
    }
}

extension Figure {
    fileprivate var heading: String {
        let better = unit.isRate ? "more is better" : "less is better"
        let place = [part, work, placement].compactMap(\.self).joined(separator: ", ")
        return "\(place): \(unit.name), \(better)"
    }
}
