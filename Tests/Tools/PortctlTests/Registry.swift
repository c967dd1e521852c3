import Foundation
import TestSupport
import Testing

/// What a run of the program came to.
struct Outcome: Equatable {
    var status: Int32?
    var output = ""
    var errors = ""

    init(_ status: Int32?, _ output: String = "", _ errors: String = "") {
        self.status = status
        self.output = output
        self.errors = errors
    }
}

/// A registry directory of one test's own, and programs that use it.
final class Registry {
    let path: String
    private let folder = TemporaryFolder()
    private var started: [Run] = []

    init(named name: String = "r") { path = "\(folder.path)/\(name)" }

    var noNames: String { "portctl: no names in \(path) (see PORTS_DIRECTORY)\n" }

    var files: [String] { registryFiles(in: path) }

    private func start(words: [String], input: String = "") -> Run {
        let run = Run(words, environment: ["PORTS_DIRECTORY": path, "LC_ALL": "C"], input: Array(input.utf8))
        started.append(run)
        return run
    }

    private let program = Child.folder + "/portctl"

    func start(_ arguments: [String], input: String = "") -> Run { start(words: [program] + arguments, input: input) }

    func start(_ arguments: String...) -> Run { start(arguments) }

    func portctl(_ arguments: String..., input: String = "") -> Outcome {
        start(arguments, input: input).outcome
    }

    /// What comes of a shell script, in which `"$0"` is the program.
    func shell(_ script: String) -> Outcome { start(words: ["/bin/bash", "-c", script, program]).outcome }

    /// What the program says, read as JSON.
    func json(_ arguments: String..., status: Int32 = 0) throws -> Any {
        let outcome = start(arguments).outcome
        #expect(outcome.status == status)
        return try JSONSerialization.jsonObject(with: Data(outcome.output.utf8), options: .fragmentsAllowed)
    }

    /// Starts a program that talks to servers.
    func helper(_ arguments: String...) -> Run { start(words: ["\(Child.folder)/PortsTestHelper"] + arguments) }

    /// Starts a server, and waits until its name is there.
    func serve(_ name: String, as command: String = "serve", _ arguments: String...) throws -> Child {
        let server = start(words: ["\(Child.folder)/PortsTestHelper", command, name] + arguments)
        let isThere = portctl("wait", name, "--timeout", "60")
        try #require(isThere.status == 0, "\(isThere.errors)")
        return server.child
    }
}

extension Run {
    var text: String { String(decoding: output, as: UTF8.self) }

    /// What it comes to in the end.
    var outcome: Outcome { Outcome(child.wait(), text, String(decoding: errors, as: UTF8.self)) }

    /// Waits until it has written something to its standard error.
    func waitsForError(_ expected: String) throws {
        try #require(waitUntil { String(decoding: errors, as: UTF8.self).contains(expected) || !child.isRunning })
    }

    /// Waits until it has written something.
    func waits(for expected: String) throws {
        try #require(waitUntil { text.contains(expected) || !child.isRunning })
        try #require(text.contains(expected))
    }
}
