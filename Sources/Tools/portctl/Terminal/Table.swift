/// Rows with their columns below each other.
struct Table {
    /// The first row has the titles.
    var rows: [[String]]
    /// The column of the services' states, which stand out.
    var stateColumn: Int?
    /// The columns that keep all their text as long as there is room for it, such as numbers and times.
    var whole: ClosedRange<Int>?

    /// The columns that a long text keeps when the table is too wide.
    private static let least = 10
    private static let gap = 2

    /// - Parameter width: The width to fit into, by leaving out the middle of long texts; nil for any width.
    func lines(toWidth width: Int? = nil, isStyled: Bool = false) -> [String] {
        let widths = fitted(to: width)
        return rows.enumerated().map { number, row in
            var (line, used) = ("", 0)
            for (column, text) in row.enumerated() {
                let room = min(widths[column], width.map { $0 - used } ?? .max)
                if room <= 0 { break }
                let shown = shortened(text, to: room)
                let style = number > 0 && column == stateColumn ? Style(state: text) : number == 0 ? .quiet : nil
                line += style?(shown, if: isStyled) ?? shown
                used += widths[column] + Self.gap
                if column < row.count - 1, width.map({ used < $0 }) ?? true {
                    line += String(repeating: " ", count: widths[column] - columns(of: shown) + Self.gap)
                }
            }
            return line
        }
    }

    /// The widths of the columns. The widest give way first.
    private func fitted(to width: Int?) -> [Int] {
        var widths = (0..<(rows.first?.count ?? 0)).map { column in rows.map { columns(of: $0[column]) }.max() ?? 0 }
        guard let width else { return widths }
        while widths.reduce(0, +) + Self.gap * (widths.count - 1) > width,
            let widest = widths.indices.filter({ whole?.contains($0) != true }).max(by: { widths[$0] < widths[$1] }),
            widths[widest] > Self.least
        {
            widths[widest] -= 1
        }
        return widths
    }
}

/// The columns of a terminal that a text takes. A wide character takes two.
func columns(of text: String) -> Int { text.reduce(0) { $0 + columns(of: $1) } }

private func columns(of character: Character) -> Int {
    guard let value = character.unicodeScalars.first?.value else { return 0 }
    let isWide =
        (0x1100...0x115F).contains(value) || (0x2E80...0xA4CF).contains(value) || (0xAC00...0xD7A3).contains(value)
        || (0xF900...0xFAFF).contains(value) || (0xFE30...0xFE6F).contains(value) || (0xFF00...0xFF60).contains(value)
        || (0x1F300...0x1FAFF).contains(value) || (0x20000...0x3FFFD).contains(value)
    return isWide ? 2 : 1
}

/// The text without its middle, if it is too long, because names differ at their ends.
func shortened(_ text: String, to width: Int) -> String {
    if columns(of: text) <= width { return text }
    if width < 1 { return "" }
    // The end gets the odd column.
    return leading(text, width: (width - 1) / 2) + "…"
        + String(leading(String(text.reversed()), width: width / 2).reversed())
}

/// The first characters of a text that fit into a width.
private func leading(_ text: String, width: Int) -> Substring {
    var left = width
    return text.prefix { character in
        left -= columns(of: character)
        return left >= 0
    }
}

/// The words of a text in lines of a width. A word that is longer has a line of its own.
func wrapped(_ text: String, toWidth width: Int?) -> [String] {
    guard let width, columns(of: text) > width else { return [text] }
    var lines: [String] = []
    for word in text.split(separator: " ", omittingEmptySubsequences: false) {
        if let last = lines.last, columns(of: last) + 1 + columns(of: String(word)) <= width {
            lines[lines.count - 1] += " " + word
        } else {
            lines.append(String(word))
        }
    }
    return lines
}
