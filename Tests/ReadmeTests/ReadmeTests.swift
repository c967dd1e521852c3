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

    @Test(arguments: [
        (
            "Ports/Ports.docc/Ending",
            ["Tests/EndingHelper/Server", "Tests/ServiceLifecycle/Sources/service-check/EchoService"]
        ),
        (
            "Ports/Ports.docc/AnyLoop",
            ["poll", "glib", "nio"].map { "Examples/OtherLoops/Sources/ports-in-\($0)/Serving" }
        ),
        (
            "FoundationPorts/FoundationPorts.docc/MovingOver",
            [
                "CoreFoundation/Messages", "CoreFoundation/Daemon", "CoreFoundation/Client", "Ports/Daemon",
                "Ports/Client", "TypedPorts/Requests", "TypedPorts/Daemon", "TypedPorts/Client",
            ].map { "Examples/MovingOver/\($0)" }
        ),
        (
            "RunLoops/RunLoops.docc/OtherLoops",
            [
                "DrivenLoop/DrivenLoop", "loop-in-epoll/loop.c", "loop-in-glib/DrivenSource",
                "loop-in-nio/DrivenEventLoop", "glib-in-loop/GLibGuest",
            ].map { "Examples/OtherLoops/Sources/\($0)" }
        ),
        (
            "TypedPorts/TypedPorts.docc/TypedPorts",
            ["Requests", "Server", "Client"].map { "Examples/Dictionary/\($0)" }
        ),
    ])
    func `the programs of a page are those that are built`(_ name: String, _ files: [String]) throws {
        func text(_ path: String) throws -> String {
            try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
        }
        let page = try text("Sources/\(name).md")
        let programs = page.matches(of: /```(?:swift|c)\n([^`]*)```/).map { String($0.1) }
        #expect(try programs == files.map { try text($0.hasSuffix(".c") ? $0 : "\($0).swift") })
    }

    @Test func `the steps of a message in CONTRIBUTING are in the files that it names`() throws {
        let page = try String(contentsOf: root.appendingPathComponent("CONTRIBUTING.md"), encoding: .utf8)
        let steps = page.matches(of: /\d+\. `([\w\/]+\.swift)`, `(\w+)`/)
        #expect(steps.count == 10)
        for step in steps {
            let file = root.appendingPathComponent("Sources/\(step.1)")
            #expect(try String(contentsOf: file, encoding: .utf8).contains("func \(step.2)("), "\(step.1): \(step.2)")
        }
    }
}
