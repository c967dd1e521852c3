import Foundation
import Migration

/// Prints the results of a run: each place that is left on standard output, and failures on standard error.
struct Report {
    private(set) var hasFailed = false
    private var changed = 0
    private var left = 0
    private var modules: Set<String> = []

    mutating func add(_ path: String, _ migration: Migration, isChanged: Bool) {
        for remark in migration.remarks { print("\(path):\(remark.line):\(remark.column): \(remark.text)") }
        if isChanged { changed += 1 }
        left += migration.remarks.count
        modules.formUnion(migration.modules)
    }

    mutating func fail(_ path: String, _ problem: FileProblem) {
        hasFailed = true
        say("\(path): error: \(problem.text)")
    }

    mutating func fail(_ path: String, _ failure: ParseFailure) {
        hasFailed = true
        for error in failure.errors { say("\(path):\(error.line):\(error.column): error: \(error.text)") }
        say("\(path): error: the file is left as it is, because it is no Swift that the parser understands")
    }

    func finish(isDry: Bool) {
        let files = changed == 1 ? "1 file" : "\(changed) files"
        say("\(files) \(isDry ? "to change" : "changed"), \(left == 1 ? "1 place" : "\(left) places") left")
        if !modules.isEmpty {
            say("The target needs these products of swift-ports: \(modules.sorted().joined(separator: ", ")).")
        }
    }

    private func say(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }
}
