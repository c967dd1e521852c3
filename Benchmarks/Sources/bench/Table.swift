/// Rows of text under aligned columns: the first to the left, the others to the right.
struct Table {
    private var rows: [[String]] = []

    mutating func add(_ cells: [String]) { rows.append(cells) }

    var isEmpty: Bool { rows.isEmpty }

    var text: String {
        let widths = (0..<(rows.map(\.count).max() ?? 0)).map { column in
            rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
        }
        return rows.map { row in
            row.enumerated().map { column, cell in
                let padding = String(repeating: " ", count: widths[column] - cell.count)
                return column == 0 ? cell + padding : padding + cell
            }.joined(separator: "   ")
        }.joined(separator: "\n")
    }
}

/// A number with so many digits after the point, its thousands apart.
func formatted(_ value: Double, digits: Int) -> String {
    guard value.isFinite else { return "–" }
    var scale = 1.0
    for _ in 0..<digits { scale *= 10 }
    let scaled = Int((value * scale).rounded())
    let fraction = String(scaled % Int(scale))
    var whole = Array(String(scaled / Int(scale)))
    for place in stride(from: whole.count - 3, to: 0, by: -3) { whole.insert(",", at: place) }
    guard digits > 0 else { return String(whole) }
    return String(whole) + "." + String(repeating: "0", count: digits - fraction.count) + fraction
}
