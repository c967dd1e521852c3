/// Changes to a text that do not overlap. Offsets count the bytes of the text's UTF-8.
struct Edits {
    /// Where the new text belongs among others at its offset: in this order.
    private enum Place: Comparable {
        /// To the expression that ends there.
        case end(Int)
        /// To the expression that begins there.
        case start(Int)
        /// In the place of old text.
        case replacement
    }

    private struct Edit {
        var range: Range<Int>
        var text: String
        var place: Place
    }

    private var edits: [Edit] = []

    mutating func replace(_ range: Range<Int>, with text: String) {
        edits.append(Edit(range: range, text: text, place: .replacement))
    }

    /// Inserts a text before the expression that begins at the offset. A later call inserts in front of an earlier one,
    /// so that an expression that contains another comes later.
    mutating func insert(_ text: String, before offset: Int) {
        edits.append(Edit(range: offset..<offset, text: text, place: .start(-edits.count)))
    }

    /// Inserts a text after the expression that ends at the offset, and after an earlier insertion there.
    mutating func insert(_ text: String, after offset: Int) {
        edits.append(Edit(range: offset..<offset, text: text, place: .end(edits.count)))
    }

    /// Whether a part of the range is replaced.
    func touch(_ range: Range<Int>) -> Bool { edits.contains { $0.range.overlaps(range) } }

    func applied(to text: String) -> String {
        let bytes = Array(text.utf8)
        let newline = text.contains("\r\n") ? "\r\n" : "\n"
        var (result, position): ([UInt8], Int) = ([], 0)
        let sorted = edits.sorted { ($0.range.lowerBound, $0.place) < ($1.range.lowerBound, $1.place) }
        for edit in sorted {
            result += bytes[position..<edit.range.lowerBound]
            result += edit.text.split(separator: "\n", omittingEmptySubsequences: false).joined(separator: newline).utf8
            position = edit.range.upperBound
        }
        result += bytes[position...]
        return String(decoding: result, as: UTF8.self)
    }
}
