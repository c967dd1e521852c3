import Foundation
import TestSupport
import Testing

@testable import wordcount

/// The program as a user runs it, beside `wc`. Each test has a registry directory of its own, and looks at it in the
/// end: nothing may be left.
struct EndToEndTests {
    private let folder: TemporaryFolder
    private let registry: String

    init() throws {
        folder = try TemporaryFolder()
        registry = folder.path + "/r"
    }

    /// The program beside the test runner.
    private static let program: String? = {
        guard let runner = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe") else {
            return nil
        }
        return URL(fileURLWithPath: runner).deletingLastPathComponent().appendingPathComponent("wordcount").path
    }()

    private func start(_ arguments: [String], output: URL, errors: URL) throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try #require(Self.program))
        process.arguments = arguments
        process.environment = ["PORTS_DIRECTORY": registry, "LC_ALL": "C", "SWIFT_BACKTRACE": "enable=no"]
            .merging(sanitizerOptions) { $1 }
        process.currentDirectoryURL = URL(fileURLWithPath: folder.path)
        process.standardInput = FileHandle.nullDevice
        for file in [output, errors] { try Data().write(to: file) }
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = try FileHandle(forWritingTo: errors)
        try process.run()
        return process
    }

    private func files(_ name: String = "out") -> (output: URL, errors: URL) {
        let base = URL(fileURLWithPath: folder.path)
        return (base.appendingPathComponent(name + ".stdout"), base.appendingPathComponent(name + ".stderr"))
    }

    private func count(_ arguments: String...) throws -> (status: Int32, output: String, errors: String) {
        let (output, errors) = files(UUID().uuidString)
        let process = try start(arguments, output: output, errors: errors)
        process.waitUntilExit()
        return (process.terminationStatus, try read(output), try read(errors))
    }

    private func read(_ file: URL) throws -> String { text([UInt8](try Data(contentsOf: file))) }

    /// What `wc` says, blanks at the beginnings of columns aside.
    private func expected(_ path: String) throws -> String {
        let outcome = try run(
            "find \"$1\" -type f -print0 | sort -z | wc --files0-from=-", path, in: folder.path)
        return unpadded(text(outcome.output))
    }

    private func unpadded(_ lines: String) -> String {
        lines.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            let fields = line.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: true)
            return fields.joined(separator: " ")
        }.joined(separator: "\n")
    }

    private func makeTree(files: Int, size: Int, in name: String = "tree") throws {
        try folder.makeDirectory(name)
        var random = SplitMix64(seed: UInt64(files))
        let bytes = (0..<size).map { _ in UInt8(truncatingIfNeeded: random.next()) & 0x3f }
        for index in 0..<files {
            try folder.makeFile([UInt8]("\(name)/file \(index)"), Array(bytes.dropFirst(index % 100)))
        }
    }

    private var leftovers: [String] {
        [registry, registry + "/names"].flatMap { (try? FileManager.default.contentsOfDirectory(atPath: $0)) ?? [] }
            .filter { $0 != "names" }
    }

    private func children(of pid: Int32) -> [Int32] {
        let list = try? String(contentsOfFile: "/proc/\(pid)/task/\(pid)/children", encoding: .utf8)
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/task")) ?? []
        let all = threads.compactMap {
            try? String(contentsOfFile: "/proc/\(pid)/task/\($0)/children", encoding: .utf8)
        }
        return Set((all + [list ?? ""]).joined(separator: " ").split(separator: " ").compactMap { Int32($0) }).sorted()
    }

    /// Waits for something to become true, with a deadline.
    private func eventually(_ what: String, within seconds: Double = 60, _ isTrue: () throws -> Bool) throws {
        let deadline = Date(timeIntervalSinceNow: seconds)
        while try !isTrue() {
            try #require(Date() < deadline, "\(what)")
            usleep(1000)
        }
    }

    // MARK: Numbers

    @Test(arguments: [["--threads", "3"], ["--processes", "3"], []])
    func countsAsWcDoes(options: [String]) throws {
        try makeTree(files: 60, size: 3000)
        try folder.makeFile("tree/empty")
        try folder.makeFile([UInt8]("tree/with\nnewline"), [UInt8]("one two"))
        try folder.makeFile([UInt8]("tree/") + [0xff, 0xfe], [UInt8]("three\n"))
        try folder.makeLink("tree/link", to: "empty")
        let (output, errors) = files()
        let process = try start(options + ["tree"], output: output, errors: errors)
        process.waitUntilExit()
        #expect(unpadded(try read(output)) == (try expected("tree")))
        #expect(try read(errors) == "")
        #expect(process.terminationStatus == 0)
        #expect(leftovers == [])
    }

    @Test func countsWithMoreWorkersThanFiles() throws {
        try makeTree(files: 2, size: 10)
        let outcome = try count("--processes", "8", "tree")
        #expect(unpadded(outcome.output) == (try expected("tree")))
        #expect(leftovers == [])
    }

    @Test func anEmptyDirectoryIsNoError() throws {
        try folder.makeDirectory("none")
        let outcome = try count("none")
        #expect(outcome.status == 0 && outcome.output == "" && outcome.errors == "")
    }

    @Test func aPathThatIsNoUTF8IsFound() throws {
        try folder.makeFile([0xc3, 0x28, 0xff], [UInt8]("a b\n"))
        let program = try #require(Self.program)
        let outcome = try run(
            "PORTS_DIRECTORY=\"$2\" \"$1\" $(printf '\\303(\\377')", program, registry, in: folder.path)
        #expect(text(outcome.output) == "1 2 4 \u{c3}(\u{ff}\n")
    }

    // MARK: Errors

    @Test func aMissingFileIsAnErrorAndTheRestIsCounted() throws {
        try folder.makeFile("there", "a b c\n")
        let outcome = try count("--processes", "2", "there", "missing")
        #expect(outcome.status == 1)
        #expect(outcome.errors == "wordcount: missing: No such file or directory\n")
        #expect(unpadded(outcome.output) == "1 3 6 there\n1 3 6 total\n")
    }

    @Test func aFileThatCannotBeReadIsAnErrorAndTheRestIsCounted() throws {
        try folder.makeFile("there", "a b c\n")
        let outcome = try count("--threads", "2", "/proc/self/mem", "there")
        #expect(outcome.status == 1)
        #expect(outcome.errors == "wordcount: /proc/self/mem: Input/output error\n")
    }

    @Test(arguments: [
        [], ["--threads", "0", "x"], ["--threads", "many", "x"], ["--threads", "1", "--processes", "1", "x"],
        ["--nonsense", "x"],
    ])
    func wrongUsageExitsWithTwo(arguments: [String]) throws {
        let (output, errors) = files()
        let process = try start(arguments, output: output, errors: errors)
        process.waitUntilExit()
        #expect(process.terminationStatus == 2)
        #expect(try read(output) == "")
        #expect(try read(errors).contains("wordcount [--threads N | --processes N] PATH"))
    }

    // MARK: Violence

    @Test func killedWorkersLoseNoWork() throws {
        try makeTree(files: 4000, size: 20_000)
        let (output, errors) = files()
        let process = try start(["--processes", "4", "tree"], output: output, errors: errors)
        var killed: Set<Int32> = []
        try eventually("two workers are there to be killed") {
            guard killed.count < 2, process.isRunning else { return true }
            if let victim = children(of: process.processIdentifier).first(where: { !killed.contains($0) }),
                // A child that has not yet become the program belongs to nobody's test.
                (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(victim)/exe")) != nil
            {
                kill(victim, SIGKILL)
                killed.insert(victim)
            }
            return false
        }
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        #expect(unpadded(try read(output)) == (try expected("tree")))
        let told = try read(errors)
        #expect(told.components(separatedBy: "was ended by signal 9 (Killed)").count == killed.count + 1, "\(told)")
        #expect(leftovers == [])
    }

    @Test func killingEveryWorkerEndsTheRun() throws {
        try makeTree(files: 3000, size: 50_000)
        let (output, errors) = files()
        let process = try start(["--processes", "1", "tree"], output: output, errors: errors)
        var killed: Set<Int32> = []
        try eventually("the run gives up") {
            for child in children(of: process.processIdentifier) where killed.insert(child).inserted {
                kill(child, SIGKILL)
            }
            return !process.isRunning
        }
        #expect(process.terminationStatus == 1)
        #expect(try read(errors).contains("3 have been replaced already: giving up"))
        #expect(try read(output) == "")
        #expect(leftovers == [])
    }

    @Test(arguments: [SIGINT: 130, SIGTERM: 143] as [Int32: Int32])
    func aSignalLeavesNothingBehind(signal: Int32, status: Int32) throws {
        try makeTree(files: 3000, size: 50_000)
        let (output, errors) = files()
        let process = try start(["--processes", "3", "tree"], output: output, errors: errors)
        var workers: [Int32] = []
        try eventually("the workers are there") {
            workers = children(of: process.processIdentifier)
            return workers.count == 3 || !process.isRunning
        }
        kill(process.processIdentifier, signal)
        process.waitUntilExit()
        #expect(process.terminationReason == .exit)
        #expect(process.terminationStatus == status)
        #expect(workers.allSatisfy { kill($0, 0) != 0 })
        #expect(leftovers == [])
    }

    @Test func whatAKilledMainLeavesIsSweptByTheNextRun() throws {
        try makeTree(files: 3000, size: 50_000)
        let (output, errors) = files()
        let process = try start(["--processes", "3", "tree"], output: output, errors: errors)
        var workers: [Int32] = []
        try eventually("the workers are there") {
            workers = children(of: process.processIdentifier)
            return workers.count == 3 || !process.isRunning
        }
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        try eventually("the workers notice and go") { workers.allSatisfy { !isAlive($0) } }
        #expect(leftovers != [])
        try folder.makeFile("one", "a\n")
        _ = try count("--processes", "1", "one")
        #expect(leftovers == [])
    }

    /// A zombie that nobody has collected yet is not alive.
    private func isAlive(_ pid: Int32) -> Bool {
        guard let status = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8) else { return false }
        return status.split(separator: ")").last?.split(separator: " ").first != "Z"
    }
}
