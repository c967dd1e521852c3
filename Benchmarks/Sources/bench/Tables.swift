/// The tables of a run's figures.
extension Report {
    /// Figures that differ in payload or variant alone stand side by side, and the others below one another.
    var tables: String {
        var texts: [String] = []
        var titles: [String] = []
        for figure in figures where figure.column != nil && titles.last != figure.title {
            if !titles.contains(figure.title) { titles.append(figure.title) }
        }
        for title in titles { texts.append(Self.table(figures.filter { $0.column != nil && $0.title == title })) }
        let others = figures.filter { $0.column == nil }
        if !others.isEmpty { texts.append(Self.list(others)) }
        let verdicts = Self.verdicts(figures.filter { $0.column != nil })
        if let verdicts { texts.append(verdicts) }
        return texts.joined(separator: "\n\n")
    }

    /// A column for each figure, a line for each contender.
    private static func table(_ figures: [Figure]) -> String {
        var table = Table()
        table.add([figures[0].title] + figures.map { $0.column ?? "" })
        var names: [String] = []
        for name in figures.flatMap(\.series).map(\.name) where !names.contains(name) { names.append(name) }
        for name in names {
            table.add([name] + figures.map { $0.cell($0.series.first { $0.name == name }) })
        }
        if names.count > 1 {
            table.add(
                ["ours / \(names[1])"]
                    + figures.map { figure in
                        figure.ratio(to: names[1]).map { formatted($0, digits: 2) } ?? "–"
                    })
        }
        return table.text
    }

    /// A line for each that ours is compared with.
    private static func list(_ figures: [Figure]) -> String {
        var table = Table()
        table.add(["", "ours", "beside", "theirs", "ours / theirs", "limit"])
        for figure in figures {
            for (index, series) in figure.series.dropFirst().enumerated() {
                let ratio = figure.ratio(to: series.name)
                table.add([
                    index == 0 ? figure.name : "", index == 0 ? figure.cell(figure.series[0]) : "", series.name,
                    figure.cell(series), ratio.map { formatted($0, digits: 2) } ?? "–",
                    ratio.map { ratio in series.limits.map { $0.verdict(ratio) }.joined(separator: ", ") } ?? "",
                ])
            }
        }
        return table.text
    }

    private static func verdicts(_ figures: [Figure]) -> String? {
        var table = Table()
        for figure in figures {
            for series in figure.series where !series.limits.isEmpty {
                guard let ratio = figure.ratio(to: series.name) else { continue }
                table.add(
                    ["\(figure.name), ours / \(series.name)", formatted(ratio, digits: 2)]
                        + series.limits.map { $0.verdict(ratio) })
            }
        }
        return table.isEmpty ? nil : table.text
    }

    /// What has changed since another run. The next contender's change tells how much of it is the machine's.
    func comparison(with former: Report) -> String {
        var table = Table()
        table.add(["", "before", "now", "change", "beside", "its change"])
        for figure in figures {
            guard let before = former.figures.first(where: { $0.name == figure.name }), let ours = figure.series.first
            else { continue }
            var cells = [figure.name]
            for figure in [before, figure] { cells.append(figure.cell(figure.series.first)) }
            cells.append(Self.change(before.series.first, ours))
            if let rival = figure.series.dropFirst().first {
                cells += [rival.name, Self.change(before.series.first { $0.name == rival.name }, rival)]
            }
            table.add(cells)
        }
        return "before: \(former.date), \(former.machine)\nnow:    \(date), \(machine)\n\n\(table.text)"
    }

    private static func change(_ before: Series?, _ now: Series) -> String {
        guard let before = before?.median, let now = now.median, before != 0 else { return "–" }
        let change = (now / before - 1) * 100
        return (change < 0 ? "−" : "+") + formatted(abs(change), digits: 1) + " %"
    }
}

extension Figure {
    /// The median and the spread of a contender.
    fileprivate func cell(_ series: Series?) -> String {
        guard let series, let median = series.median else { return "–" }
        let spread = series.spread.map { " ±\(formatted($0 * 100, digits: 0))%" } ?? ""
        return formatted(median, digits: unit.digits) + spread
    }

    fileprivate func ratio(to name: String) -> Double? {
        guard let ours = series.first?.median, let theirs = series.first(where: { $0.name == name })?.median else {
            return nil
        }
        // Nothing is as good as nothing.
        return ours == 0 ? 0 : ours / theirs
    }
}
