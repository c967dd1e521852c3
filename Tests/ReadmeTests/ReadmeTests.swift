import Foundation
import Testing

struct ReadmeTests {
    private let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// The program in the README is the example that the package builds, to the letter.
    @Test func `the README's program is the one that is built`() throws {
        let readme = try String(contentsOf: root.appendingPathComponent("README.md"), encoding: .utf8)
        let example = try String(contentsOf: root.appendingPathComponent("Examples/Hello/main.swift"), encoding: .utf8)
        let program = try #require(readme.firstRange(of: /```swift\n([^`]*)```/))
        #expect(readme[program] == "```swift\n\(example)```")
        #expect(example.split(separator: "\n").count < 30)
    }

    @Test func `the README's program says hello`() throws {
        let runner = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let process = Process()
        process.executableURL = URL(fileURLWithPath: runner).deletingLastPathComponent().appendingPathComponent("hello")
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let said = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        #expect(String(decoding: said, as: UTF8.self) == "The worker says: Hello!\n")
    }
}
