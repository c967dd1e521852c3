import Foundation
import TestSupport
import Testing

/// What a run of the program came to.
struct Outcome: Equatable {
    var status: Int32
    var output = ""
    var errors = ""

    init(_ status: Int32, _ output: String = "", _ errors: String = "") {
        self.status = status
        self.output = output
        self.errors = errors
    }
}

/// A registry directory of one test's own, and programs that use it.
final class Registry {
    let path: String
    private let folder: URL
    private var started: [Process] = []

    init() {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("pc-\(UUID().uuidString.prefix(8))")
        path = folder.path + "/r"
        try? FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit {
        for process in started where process.isRunning {
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
        try? FileManager.default.removeItem(at: folder)
    }

    /// What is in the directory, and in its folder of names, but for that.
    var files: [String] {
        [path, path + "/names"].flatMap { (try? FileManager.default.contentsOfDirectory(atPath: $0)) ?? [] }
            .filter { $0 != "names" }
    }

    /// A program beside the test runner.
    private func program(_ name: String) throws -> URL {
        let runner = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        return URL(fileURLWithPath: runner).deletingLastPathComponent().appendingPathComponent(name)
    }

    /// A program that runs.
    struct Run {
        let process: Process
        let files: [URL]

        func output() throws -> String { try String(contentsOf: files[0], encoding: .utf8) }

        func outcome() throws -> Outcome {
            process.waitUntilExit()
            return Outcome(
                process.terminationStatus, try output(), try String(contentsOf: files[1], encoding: .utf8))
        }

        /// Waits until it has written something.
        func waits(for text: String) throws {
            let deadline = Date(timeIntervalSinceNow: 20)
            while try !output().contains(text) {
                try #require(Date() < deadline && process.isRunning, "\(text) does not come")
                usleep(1000)
            }
        }
    }

    private func start(_ program: URL, _ arguments: [String], input: String? = nil) throws -> Run {
        let process = Process()
        process.executableURL = program
        process.arguments = arguments
        process.environment = ["PORTS_DIRECTORY": path, "LC_ALL": "C", "SWIFT_BACKTRACE": "enable=no"]
            .merging(sanitizerOptions) { $1 }
        let files = (0..<3).map { _ in folder.appendingPathComponent(UUID().uuidString) }
        for file in files { try Data().write(to: file) }
        try Data((input ?? "").utf8).write(to: files[2])
        process.standardOutput = try FileHandle(forWritingTo: files[0])
        process.standardError = try FileHandle(forWritingTo: files[1])
        process.standardInput = try FileHandle(forReadingFrom: files[2])
        try process.run()
        started.append(process)
        return Run(process: process, files: files)
    }

    func start(_ arguments: [String], input: String? = nil) throws -> Run {
        try start(program("portctl"), arguments, input: input)
    }

    func start(_ arguments: String...) throws -> Run { try start(arguments) }

    func portctl(_ arguments: String..., input: String? = nil) throws -> Outcome {
        try start(arguments, input: input).outcome()
    }

    /// What comes of a shell script, in which `"$0"` is the program.
    func shell(_ script: String) throws -> Outcome {
        try start(URL(fileURLWithPath: "/bin/bash"), ["-c", script, program("portctl").path]).outcome()
    }

    /// What the program says, read as JSON.
    func json(_ arguments: String...) throws -> Any {
        let outcome = try start(arguments).outcome()
        #expect(outcome.status == 0)
        return try JSONSerialization.jsonObject(with: Data(outcome.output.utf8), options: .fragmentsAllowed)
    }

    /// Starts a server, and waits until its name is there.
    func serve(_ name: String, as command: String = "serve") throws -> Process {
        let server = try start(program("PortsTestHelper"), [command, name]).process
        let isThere = try portctl("wait", name, "--timeout", "20")
        try #require(isThere.status == 0, "\(isThere.errors)")
        return server
    }
}
