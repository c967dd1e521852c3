import Foundation
import OwnThread
import TestSupport
import Testing

@Suite(.ownThread) struct ReadmeTests {
    @Test func `the README's program is the one that is built, and is short`() throws {
        let readme = try Repository.text("README.md")
        let example = try Repository.text("Examples/Greeter/Greeter.swift")
        #expect(readme.contains("```swift\n\(example)```"))
        #expect(example.split(separator: "\n").count < 30)
    }

    @Test func `the README's program does what the README shows`() throws {
        let folder = TemporaryFolder()
        func run(_ arguments: String...) -> Run {
            Run(["\(Child.folder)/greeter"] + arguments, environment: ["PORTS_DIRECTORY": folder.path])
        }
        let early = run("Ann")
        #expect(early.child.wait() != 0)
        #expect(String(decoding: early.errors, as: UTF8.self).contains("nobody has registered the name"))
        let daemon = run()
        defer { daemon.child.signal(SIGKILL) }
        let isAnswered = waitUntil {
            let client = run("Ann")
            return client.child.wait() == 0 && client.output == Array("Hello, Ann!\n".utf8)
        }
        #expect(isAnswered)
    }

    @Test(arguments: [
        ("Ports/Ports.docc/Ports", ["Examples/Hello/main"]),
        (
            "Ports/Ports.docc/Ending",
            ["Tests/Core/EndingHelper/Server", "Examples/Companions/Sources/service-check/EchoService"]
        ),
        (
            "Ports/Ports.docc/AnyLoop",
            ["poll", "glib", "nio"].map { "Examples/Companions/Sources/ports-in-\($0)/Serving" }
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
            ].map { "Examples/Companions/Sources/\($0)" }
        ),
        (
            "SwiftPortsGuide/SwiftPortsGuide.docc/Tutorial",
            ["NotesRequests/Requests", "noted/Notebook", "noted/Daemon", "notes/Client"].map { "Examples/Notes/\($0)" }
        ),
        (
            "SwiftPortsGuide/SwiftPortsGuide.docc/WorkerProcesses",
            ["Requests", "Worker", "Parent"].map { "Examples/Workers/\($0)" }
        ),
        (
            "Systemd/Systemd.docc/DaemonUnderSystemd", ["Serving", "Counter"].map { "Examples/Daemon/\($0)" }
        ),
        (
            "TypedPorts/TypedPorts.docc/TypedPorts",
            ["Requests", "Server", "Client"].map { "Examples/Dictionary/\($0)" }
        ),
    ])
    func `the programs of a page are those that are built`(_ name: String, _ files: [String]) throws {
        let module = String(name.prefix { $0 != "/" })
        let page = try Repository.text("\(Repository.folder(of: module))\(name.dropFirst(module.count)).md")
        let programs = page.matches(of: /```(?:swift|c)\n([^`]*)```/).map { String($0.1) }
        for file in files {
            let program = try Repository.text(file.hasSuffix(".c") ? file : "\(file).swift")
            #expect(programs.contains(program), "\(file)")
        }
    }

    @Test func `the unit of the page on systemd is the example's`() throws {
        let page = try Repository.text("Sources/Services/Systemd/Systemd.docc/DaemonUnderSystemd.md")
        #expect(try page.contains("```ini\n\(Repository.text("Examples/Daemon/daemon.service"))```"))
    }

    @Test func `the steps of a message and of a request in CONTRIBUTING are in the files that it names`() throws {
        let page = try Repository.text("CONTRIBUTING.md")
        let steps = page.matches(of: /\d+\. `([\w\/]+\.swift)`, `(\w+)`/)
        #expect(steps.count == 18)
        for step in steps {
            #expect(try Repository.text("Sources/Core/\(step.1)").contains("func \(step.2)("), "\(step.1): \(step.2)")
        }
    }
}
