import Foundation
import Testing

struct ReadmeTests {
    private let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// The program in the README is the example that the package builds, to the letter. `make examples` runs it.
    @Test func `the README's program is the one that is built`() throws {
        let readme = try String(contentsOf: root.appendingPathComponent("README.md"), encoding: .utf8)
        let example = try String(contentsOf: root.appendingPathComponent("Examples/Hello/main.swift"), encoding: .utf8)
        let program = try #require(readme.firstRange(of: /```swift\n([^`]*)```/))
        #expect(readme[program] == "```swift\n\(example)```")
        #expect(example.split(separator: "\n").count < 30)
    }
}
