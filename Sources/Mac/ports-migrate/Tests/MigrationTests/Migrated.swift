import Migration
import Testing

/// Migrates a text, checks that a second migration changes nothing, and returns the text without the imports.
func migrated(_ source: String, sourceLocation: SourceLocation = #_sourceLocation) throws -> String {
    let first = try Migration(source)
    let second = try Migration(first.text)
    #expect(second.text == first.text, sourceLocation: sourceLocation)
    #expect(second.remarks == first.remarks, sourceLocation: sourceLocation)
    let lines = first.text.split(separator: "\n", omittingEmptySubsequences: false).drop { line in
        line.isEmpty || line.hasPrefix("import ")
    }
    return lines.joined(separator: "\n")
}

/// The remarks on a text, with their places.
func remarks(_ source: String) throws -> [String] {
    try Migration(source).remarks.map { "\($0.line):\($0.column): \($0.text)" }
}
