import Foundation

/// A piece of Swift that a page shows.
struct Snippet: Sendable {
    var text: String
    /// Where it is: the page, and the line of its first line.
    var page: String
    var line: Int
    /// What a comment above says, which the rendered page does not show: `continues` the file of the snippet before, or
    /// is a file `beside` those before.
    var note = ""

    /// The snippets of a page.
    static func all(of page: String) throws -> [Snippet] {
        var (snippets, note): ([Snippet], String) = ([], "")
        var isInside = false
        for (index, line) in try Repository.text(page).split(separator: "\n", omittingEmptySubsequences: false)
            .enumerated()
        {
            if !isInside, let comment = line.wholeMatch(of: /<!-- (continues|beside) -->/) {
                note = String(comment.1)
            } else if !isInside, line == "```swift" {
                snippets.append(Snippet(text: "", page: page, line: index + 2, note: note))
                (note, isInside) = ("", true)
            } else if isInside, line == "```" {
                isInside = false
            } else if isInside {
                snippets[snippets.count - 1].text += line + "\n"
            }
        }
        return snippets
    }

    /// The samples in the doc comments of what a source file has for others. A sample is indented, and below an empty
    /// line. Its reader has imported the module.
    static func samples(of file: String) throws -> [Snippet] {
        var (snippets, comment): ([Snippet], [Substring]) = ([], [])
        for (index, line) in try Repository.text(file).split(separator: "\n", omittingEmptySubsequences: false)
            .enumerated()
        {
            let text = line.drop { $0 == " " }
            if text.hasPrefix("///") {
                comment.append(text.dropFirst(3))
                continue
            }
            if text.contains(/^(@|public|open)/) {
                snippets += Self.samples(in: comment, from: index - comment.count, of: file)
            }
            comment = []
        }
        return snippets
    }

    private static func samples(in comment: [Substring], from line: Int, of file: String) -> [Snippet] {
        let starts = comment.indices.dropFirst().filter { comment[$0 - 1].isEmpty && comment[$0].hasPrefix("     ") }
        return starts.compactMap { start in
            guard start < 2 || !comment[start - 2].hasPrefix("     ") else { return nil }
            let lines = comment[start...].prefix { $0.isEmpty || $0.hasPrefix("     ") }.map { $0.dropFirst(5) + "\n" }
            let isAsync = lines.contains { $0.contains("await ") }
            let head = "import \(file.split(separator: "/")[2])" + (isAsync ? "; func sample() async throws {" : "")
            // The head is in the place of the empty line above.
            return Snippet(
                text: ([head + "\n"] + lines + (isAsync ? ["}"] : [])).joined(), page: file, line: line + start)
        }
    }

    var imports: Set<String> { Set(text.matches(of: /(?m)^(?:@\w+ )?import (\w+)/).map { String($0.1) }) }

    var isManifest: Bool { imports.contains("PackageDescription") }

    /// Whether it can only be a `main.swift`: it has statements beside its declarations.
    var hasStatements: Bool {
        let declarations =
            /@|(import|func|struct|class|final|actor|enum|extension|protocol|typealias|public|private|nonisolated)\b/
        return isManifest
            || text.split(separator: "\n").contains { line in
                guard let first = line.first, first.isLetter || first == "_" || first == "@" else { return false }
                if line.prefixMatch(of: /(let|var)\b/) != nil { return line.contains(/\b(try|await)\b/) }
                return line.prefixMatch(of: declarations) == nil
            }
    }
}
