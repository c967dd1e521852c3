import Foundation
import Testing

/// The tables of what Apple's run loops and ports have, and of what waits, name nothing that is not there.
struct ParityTests {
    @Test(arguments: [
        ("RunLoops", "Parity", 50), ("Ports", "Parity", 50), ("Ports", "Async", 2),
        ("CoreFoundationPorts", "Parity", 30),
    ])
    func `the tests and examples that a table names are there`(module: String, name: String, least: Int) throws {
        let page = try Repository.text("\(Repository.folder(of: module))/\(module).docc/\(name).md")
        let tests = page.matches(of: /`(\w+): ([^`]+)`/)
        #expect(tests.count >= least)
        for test in tests {
            let (file, name) = (test.1, test.2)
            let folders = ["RunLoopsTests", "PortsTests", "CoreFoundationPortsTests", "FoundationPortsTests"]
                .map { "\($0)/\(file).swift" }
            let files =
                ["Core", "Mac"].flatMap { group in folders.map { "\(group)/\($0)" } }
                + ["Mac/CFMessagePortProgram/\(file).c"]
            let sources = files.compactMap { try? Repository.text("Tests/\($0)") }
            let forms = ["BEHAVIOUR(\(name))", "func `\(name)`", "Script(\"\(name)\"", "Scene(\"\(name)\""]
            #expect(
                sources.contains { source in forms.contains { source.contains($0) } },
                "\(file) has no test of this name: \(name)")
        }
        for example in page.matches(of: /`Examples\/(\w+)`/) {
            _ = try Repository.text("Examples/\(example.1)/expected.txt")
        }
    }
}
