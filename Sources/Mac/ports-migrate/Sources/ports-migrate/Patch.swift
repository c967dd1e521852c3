/// The difference of two texts, as `diff -u` prints it.
struct Patch {
    let text: String

    private static let context = 3

    private enum Line {
        case kept(Substring), removed(Substring), added(Substring)

        var isKept: Bool { if case .kept = self { true } else { false } }
    }

    init(of path: String, from old: String, to new: String) {
        let lines = Self.lines(Self.split(old), Self.split(new))
        var text = "--- \(path)\n+++ \(path)\n"
        var (oldLine, newLine, index) = (1, 1, 0)
        while index < lines.count {
            let hunk = Self.hunk(lines, from: index)
            for line in lines[index..<hunk.lowerBound] where line.isKept {
                (oldLine, newLine) = (oldLine + 1, newLine + 1)
            }
            guard !hunk.isEmpty else { break }
            var (olds, news, body) = (0, 0, "")
            for line in lines[hunk] {
                switch line {
                case .kept(let content): (olds, news, body) = (olds + 1, news + 1, body + " \(content)\n")
                case .removed(let content): (olds, body) = (olds + 1, body + "-\(content)\n")
                case .added(let content): (news, body) = (news + 1, body + "+\(content)\n")
                }
            }
            text += "@@ -\(Self.start(oldLine, olds)),\(olds) +\(Self.start(newLine, news)),\(news) @@\n\(body)"
            (oldLine, newLine, index) = (oldLine + olds, newLine + news, hunk.upperBound)
        }
        self.text = text
    }

    /// Of no lines, the number of the line before.
    private static func start(_ line: Int, _ count: Int) -> Int { count == 0 ? line - 1 : line }

    /// The next changes and the lines around them; empty at the end when no change follows.
    private static func hunk(_ lines: [Line], from start: Int) -> Range<Int> {
        guard let first = lines[start...].firstIndex(where: { !$0.isKept }) else { return lines.count..<lines.count }
        var (last, index) = (first, first)
        while index < lines.count, index - last <= 2 * context {
            if !lines[index].isKept { last = index }
            index += 1
        }
        return max(start, first - context)..<min(lines.count, last + 1 + context)
    }

    /// By bytes, because a carriage return before a line's end is a part of the line here.
    private static func split(_ text: String) -> [Substring] {
        var lines = text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map(Substring.init)
        if lines.last?.isEmpty == true {
            lines.removeLast()
        } else if let last = lines.popLast() {
            lines.append("\(last)\n\\ No newline at end of file")
        }
        return lines
    }

    private static func lines(_ old: [Substring], _ new: [Substring]) -> [Line] {
        var removed: Set<Int> = []
        var added: Set<Int> = []
        for change in new.difference(from: old) {
            switch change {
            case .remove(let offset, _, _): removed.insert(offset)
            case .insert(let offset, _, _): added.insert(offset)
            }
        }
        var (lines, oldIndex, newIndex): ([Line], Int, Int) = ([], 0, 0)
        while oldIndex < old.count || newIndex < new.count {
            if removed.contains(oldIndex) {
                lines.append(.removed(old[oldIndex]))
                oldIndex += 1
            } else if added.contains(newIndex) {
                lines.append(.added(new[newIndex]))
                newIndex += 1
            } else {
                lines.append(.kept(old[oldIndex]))
                (oldIndex, newIndex) = (oldIndex + 1, newIndex + 1)
            }
        }
        return lines
    }
}
