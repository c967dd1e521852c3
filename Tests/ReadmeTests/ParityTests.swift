import Foundation
import Testing

/// The table of what CFRunLoop and NSRunLoop have does not name what is not there.
struct ParityTests {
    private let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    @Test func `the tests and examples that the table of parity names are there`() throws {
        let page = try text("Sources/RunLoops/RunLoops.docc/Parity.md")
        let tests = page.matches(of: /`(\w+): ([^`]+)`/)
        #expect(tests.count > 100)
        for test in tests {
            let (file, name) = (test.1, test.2)
            let folder = file == "MachPortTests" ? "PortsTests" : "RunLoopsTests"
            let source = try text("Tests/\(folder)/\(file).swift")
            #expect(
                ["func `\(name)`", "Script(\"\(name)\"", "Scene(\"\(name)\""].contains { source.contains($0) },
                "\(file) has no test of this name: \(name)")
        }
        for example in page.matches(of: /`Examples\/(\w+)`/) { _ = try text("Examples/\(example.1)/expected.txt") }
    }

    private func text(_ path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }
}
