import Foundation
import TestSupport

@testable import wordcount

extension [UInt8] {
    init(_ text: String) { self = Array(text.utf8) }
}

extension TemporaryFolder {
    /// The absolute path of something in the folder.
    func at(_ name: [UInt8]) -> [UInt8] { [UInt8](path + "/") + name }
    func at(_ name: String) -> [UInt8] { at([UInt8](name)) }

    @discardableResult
    func makeFile(_ name: [UInt8], _ contents: [UInt8] = []) throws -> [UInt8] {
        let path = at(name)
        let descriptor = try systemCall { open(path.cString, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644) }
        defer { close(descriptor) }
        var output = OutputBuffer(to: descriptor)
        try output.write(contents)
        try output.flush()
        return path
    }

    @discardableResult
    func makeFile(_ name: String, _ contents: String = "") throws -> [UInt8] {
        try makeFile([UInt8](name), [UInt8](contents))
    }

    func makeDirectory(_ name: String) throws {
        try systemCall { mkdir(at(name).cString, 0o755) }
    }

    func makeLink(_ name: String, to target: String) throws {
        try systemCall { symlink(target, at(name).cString) }
    }

    func makeFIFO(_ name: String) throws {
        try systemCall { mkfifo(at(name).cString, 0o644) }
    }
}

struct Outcome {
    var output: [UInt8]
    var errors: [UInt8]
}

/// Runs a shell script in the C locale with `input`, its arguments being $1, $2, and so on.
func run(_ script: String, _ arguments: String..., in folder: String = "/", input: [UInt8] = []) throws -> Outcome {
    let run = Run(["/bin/sh", "-c", script, "sh"] + arguments, environment: ["LC_ALL": "C"], in: folder, input: input)
    guard run.child.wait() != nil else { throw POSIXError(.ETIMEDOUT) }
    return Outcome(output: run.output, errors: run.errors)
}

/// Runs the real `wc` over files, given so that it knows them all beforehand, as with arguments.
func wc(_ names: [[UInt8]], in folder: String = "/") throws -> Outcome {
    try run("wc --files0-from=/dev/stdin", in: folder, input: names.flatMap { $0 + [0] })
}

/// What a report writes.
func output(of report: Report) throws -> Outcome {
    func written(_ write: (Int32) throws -> Void) throws -> [UInt8] {
        var name = Array((NSTemporaryDirectory() + "/wordcount-report-XXXXXX").utf8CString)
        let file = FileHandle(fileDescriptor: try systemCall { mkstemp(&name) }, closeOnDealloc: true)
        unlink(name)
        try write(file.fileDescriptor)
        try file.seek(toOffset: 0)
        return [UInt8](try file.readToEnd() ?? Data())
    }
    return Outcome(output: try written(report.write), errors: try written(report.writeErrors))
}

/// Counts everything at and below the paths.
func report(at paths: [[UInt8]], chunkSize: Int = 256 * 1024) -> Report {
    let tree = FileTree(at: paths)
    var report = Report(on: tree)
    for file in tree.files.reversed() {
        do throws(FileError) {
            report.add(try Counts.ofFile(atPath: file.path, chunkSize: chunkSize), ofFile: file.path)
        } catch {
            report.add(error)
        }
    }
    return report
}

func sorted(_ paths: [[UInt8]]) -> [[UInt8]] {
    paths.sorted { $0.lexicographicallyPrecedes($1) }
}

/// The bytes as Latin 1, which loses nothing: for comparisons whose failures one can read.
func text(_ bytes: [UInt8]) -> String {
    String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
}

/// What Linux offers to single threads, and Swift does not import.
enum LinuxThread {
    private typealias Call = @convention(c) (CInt) -> CInt

    private static func call(_ name: String, _ argument: CInt) -> CInt {
        unsafeBitCast(dlsym(nil, name), to: Call.self)(argument)
    }

    /// Runs something in a new thread with directories (working and root) and a table of descriptors of its own. The caller
    /// waits on a thread of its own: what is resumed from the new thread could make threads that share its directories.
    static func alone<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) throws -> Result {
        let (result, hasEnded) = (Shared<Swift.Result<Result, any Error>?>(nil), DispatchSemaphore(value: 0))
        Thread.detachNewThread {
            let directoriesAndDescriptors: CInt = 0x200 | 0x400
            let isAlone = call("unshare", directoriesAndDescriptors) == 0
            let found = Swift.Result {
                if !isAlone { throw POSIXError(.EPERM) }
                return try body()
            }
            result.withLock { $0 = found }
            hasEnded.signal()
        }
        hasEnded.wait()
        guard let found = result.withLock({ $0 }) else { throw POSIXError(.ECANCELED) }
        return try found.get()
    }

    /// Accesses files as somebody without rights, in this thread alone.
    static func withoutPrivileges<Result>(_ body: () -> Result) -> Result {
        let user = call("setfsuid", 65534)
        defer { _ = call("setfsuid", user) }
        return body()
    }
}
