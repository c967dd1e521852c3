/// Changes to a text that do not overlap. Offsets count the bytes of the text's UTF-8.
struct Edits {
    private struct Edit {
        var range: Range<Int>
        var text: String
        /// At one offset, what belongs to the end of an expression comes before what begins the next one.
        var rank: Int
    }

    private var edits: [Edit] = []

    var isEmpty: Bool { edits.isEmpty }

    mutating func replace(_ range: Range<Int>, with text: String) {
        edits.append(Edit(range: range, text: text, rank: 0))
    }

    /// Inserts a text before what begins at the offset. A later call inserts in front of an earlier one, so that an
    /// expression that contains another comes later.
    mutating func insert(_ text: String, before offset: Int) {
        edits.append(Edit(range: offset..<offset, text: text, rank: edits.count + 1))
    }

    /// Inserts a text after what ends at the offset, and after an earlier insertion there.
    mutating func insert(_ text: String, after offset: Int) {
        edits.append(Edit(range: offset..<offset, text: text, rank: edits.count - Int.max))
    }

    /// Whether a part of the range is replaced.
    func touch(_ range: Range<Int>) -> Bool { edits.contains { $0.range.overlaps(range) } }

    func applied(to text: String) -> String {
        let bytes = Array(text.utf8)
        let newline = text.contains("\r\n") ? "\r\n" : "\n"
        var (result, position): ([UInt8], Int) = ([], 0)
        let sorted = edits.sorted { left, right in
            if left.range.lowerBound != right.range.lowerBound {
                return left.range.lowerBound < right.range.lowerBound
            }
            return rank(left) < rank(right)
        }
        for edit in sorted {
            result += bytes[position..<edit.range.lowerBound]
            result += edit.text.split(separator: "\n", omittingEmptySubsequences: false).joined(separator: newline).utf8
            position = edit.range.upperBound
        }
        result += bytes[position...]
        return String(decoding: result, as: UTF8.self)
    }

    /// First what ends here, as it was inserted; then what begins here, in reverse; then a replacement.
    private func rank(_ edit: Edit) -> (Int, Int) {
        if edit.rank < 0 { return (0, edit.rank) }
        return edit.rank > 0 ? (1, -edit.rank) : (2, 0)
    }
}
