import Foundation
import OwnThread
import TestSupport
import Testing

@testable import wordcount

/// The program as a user runs it, beside `wc`. Each test has a registry directory of its own, and looks at it in the
/// end: nothing may be left.
@Suite(.ownThread) struct EndToEndTests {
    private let folder: TemporaryFolder
    private let registry: String

    init() {
        folder = TemporaryFolder()
        registry = folder.path + "/r"
    }

    private static let program = Child.folder + "/wordcount"

    private func start(_ arguments: [String]) -> Run {
        Run(
            [Self.program] + arguments, environment: ["PORTS_DIRECTORY": registry, "LC_ALL": "C"], in: folder.path)
    }

    private func count(_ arguments: String...) -> (status: Int32?, output: String, errors: String) {
        outcome(of: start(arguments))
    }

    private func outcome(of counting: Run) -> (status: Int32?, output: String, errors: String) {
        (counting.child.wait(), text(counting.output), text(counting.errors))
    }

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

    private var leftovers: [String] { registryFiles(in: registry) }

    private func eventually(_ what: String, _ isTrue: () throws -> Bool) throws {
        let isSo = try waitUntil(isTrue)
        try #require(isSo, "\(what)")
    }

    private func children(of pid: Int32) -> [Int32] {
        let all = (entries(of: "/proc/\(pid)/task") ?? []).compactMap {
            try? String(contentsOfFile: "/proc/\(pid)/task/\($0)/children", encoding: .utf8)
        }
        return all.joined(separator: " ").split(separator: " ").compactMap { Int32($0) }.sorted()
    }

    // MARK: Numbers

    @Test(arguments: [["--threads", "3"], ["--processes", "3"], []])
    func countsAsWcDoes(options: [String]) throws {
        try makeTree(files: 60, size: 3000)
        try folder.makeFile("tree/empty")
        try folder.makeFile([UInt8]("tree/with\nnewline"), [UInt8]("one two"))
        try folder.makeFile([UInt8]("tree/") + [0xff, 0xfe], [UInt8]("three\n"))
        try folder.makeLink("tree/link", to: "empty")
        let counting = start(options + ["tree"])
        let end = outcome(of: counting)
        #expect(unpadded(end.output) == (try expected("tree")))
        #expect(end.errors == "")
        #expect(end.status == 0)
        #expect(leftovers == [])
    }

    @Test func theSummaryShowsTheLongestFilesAndTheTotal() throws {
        try folder.makeDirectory("tree")
        for lines in 1...7 { try folder.makeFile("tree/\(lines)", String(repeating: "a b\n", count: lines * 200)) }
        let outcome = count("--summary", "--threads", "2", "--processes", "3", "tree")
        #expect(outcome.status == 0)
        #expect(outcome.errors == "")
        #expect(leftovers == [])
        let printed = outcome.output.split(separator: "\n").map { $0.split(separator: " ").joined(separator: " ") }
        #expect(
            printed.prefix(8) == [
                "7 files in tree", "lines words bytes the longest files", "1,400 2,800 5,600 tree/7",
                "1,200 2,400 4,800 tree/6", "1,000 2,000 4,000 tree/5", "800 1,600 3,200 tree/4",
                "600 1,200 2,400 tree/3", "5,600 11,200 22,400 all files",
            ])
        #expect(printed.dropFirst(8).map { String($0.prefix(6)) } == ["2 thre", "3 proc", "They a"])
    }

    @Test func aSummaryWithErrorsHasThemOnce() throws {
        try folder.makeFile("there", "a b c\n")
        let outcome = count("--summary", "there", "missing")
        #expect(outcome.status == 1)
        #expect(outcome.errors == "wordcount: missing: No such file or directory\n")
        #expect(outcome.output.hasSuffix("They agree on every file.\n"))
    }

    @Test func countsWithMoreWorkersThanFiles() throws {
        try makeTree(files: 2, size: 10)
        let outcome = count("--processes", "8", "tree")
        #expect(unpadded(outcome.output) == (try expected("tree")))
        #expect(leftovers == [])
    }

    @Test func anEmptyDirectoryIsNoError() throws {
        try folder.makeDirectory("none")
        let outcome = count("none")
        #expect(outcome.status == 0)
        #expect(outcome.output == "")
        #expect(outcome.errors == "")
    }

    @Test func aPathThatIsNoUTF8IsFound() throws {
        try folder.makeFile([0xc3, 0x28, 0xff], [UInt8]("a b\n"))
        let outcome = try run(
            "PORTS_DIRECTORY=\"$2\" \"$1\" $(printf '\\303(\\377')", Self.program, registry, in: folder.path)
        #expect(text(outcome.output) == "1 2 4 \u{c3}(\u{ff}\n")
    }

    // MARK: Errors

    @Test func aMissingFileIsAnErrorAndTheRestIsCounted() throws {
        try folder.makeFile("there", "a b c\n")
        let outcome = count("--processes", "2", "there", "missing")
        #expect(outcome.status == 1)
        #expect(outcome.errors == "wordcount: missing: No such file or directory\n")
        #expect(unpadded(outcome.output) == "1 3 6 there\n1 3 6 total\n")
    }

    @Test func aFileThatCannotBeReadIsAnErrorAndTheRestIsCounted() throws {
        try folder.makeFile("there", "a b c\n")
        let outcome = count("--threads", "2", "/proc/self/mem", "there")
        #expect(outcome.status == 1)
        #expect(outcome.errors == "wordcount: /proc/self/mem: Input/output error\n")
    }

    @Test(arguments: [
        [], ["--threads", "0", "x"], ["--threads", "many", "x"], ["--threads", "1", "--processes", "1", "x"],
        ["--nonsense", "x"],
    ])
    func wrongUsageExitsWithTwo(arguments: [String]) throws {
        let counting = start(arguments)
        let end = outcome(of: counting)
        #expect(end.status == 2)
        #expect(end.output == "")
        #expect(end.errors.contains("wordcount [--threads N | --processes N] PATH"))
    }

    // MARK: Violence

    @Test func killedWorkersLoseNoWork() throws {
        try makeTree(files: 4000, size: 20_000)
        let counting = start(["--processes", "4", "tree"])
        var killed: Set<Int32> = []
        try eventually("two workers are there to be killed") {
            guard killed.count < 2, counting.child.isRunning else { return true }
            if let victim = children(of: counting.child.pid).first(where: { !killed.contains($0) }),
                // A child that has not yet become the program belongs to nobody's test.
                (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(victim)/exe")) != nil
            {
                kill(victim, SIGKILL)
                killed.insert(victim)
            }
            return false
        }
        let end = outcome(of: counting)
        #expect(end.status == 0)
        #expect(unpadded(end.output) == (try expected("tree")))
        let told = end.errors
        #expect(told.components(separatedBy: "was ended by signal 9 (Killed)").count == killed.count + 1, "\(told)")
        #expect(leftovers == [])
    }

    @Test func killingEveryWorkerEndsTheRun() throws {
        try makeTree(files: 3000, size: 50_000)
        let counting = start(["--processes", "1", "tree"])
        var killed: Set<Int32> = []
        try eventually("the run gives up") {
            for child in children(of: counting.child.pid) where killed.insert(child).inserted {
                kill(child, SIGKILL)
            }
            return !counting.child.isRunning
        }
        let end = outcome(of: counting)
        #expect(end.status == 1)
        #expect(end.errors.contains("3 have been replaced already: giving up"))
        #expect(end.output == "")
        #expect(leftovers == [])
    }

    @Test(arguments: [SIGINT: 130, SIGTERM: 143] as [Int32: Int32])
    func aSignalLeavesNothingBehind(signal: Int32, status: Int32) throws {
        try makeTree(files: 3000, size: 50_000)
        let counting = start(["--processes", "3", "tree"])
        var workers: [Int32] = []
        try eventually("the workers are there") {
            workers = children(of: counting.child.pid)
            return workers.count == 3 || !counting.child.isRunning
        }
        kill(counting.child.pid, signal)
        let end = outcome(of: counting)
        #expect(end.status == status)
        #expect(workers.allSatisfy { kill($0, 0) != 0 })
        #expect(leftovers == [])
    }

    @Test func whatAKilledMainLeavesIsSweptByTheNextRun() throws {
        try makeTree(files: 3000, size: 50_000)
        let counting = start(["--processes", "3", "tree"])
        var workers: [Int32] = []
        try eventually("the workers are there") {
            workers = children(of: counting.child.pid)
            return workers.count == 3 || !counting.child.isRunning
        }
        // A worker that starts sweeps, too.
        for worker in workers { kill(worker, SIGSTOP) }
        try eventually("the workers stop") { workers.allSatisfy { threadStates(of: $0).allSatisfy { $0 == "T" } } }
        kill(counting.child.pid, SIGKILL)
        counting.child.wait()
        #expect(leftovers != [])
        for worker in workers { kill(worker, SIGCONT) }
        #expect(waitUntil { workers.allSatisfy { !isAlive($0) } }, "the workers notice and go")
        try folder.makeFile("one", "a\n")
        _ = count("--processes", "1", "one")
        #expect(leftovers == [])
    }

    /// A zombie that nobody has collected yet is not alive.
    private func isAlive(_ pid: Int32) -> Bool { state(of: "/proc/\(pid)") ?? "Z" != "Z" }

    private func threadStates(of pid: Int32) -> [Substring?] {
        let tasks = "/proc/\(pid)/task"
        return ((try? FileManager.default.contentsOfDirectory(atPath: tasks)) ?? []).map { state(of: "\(tasks)/\($0)") }
    }

    private func state(of task: String) -> Substring? {
        let status = try? String(contentsOfFile: task + "/stat", encoding: .utf8)
        return status?.split(separator: ")").last?.split(separator: " ").first
    }
}
