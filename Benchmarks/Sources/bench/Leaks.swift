import CBench
import Glibc

/// What is left behind by runs with a timeout that nothing ends before: threads and descriptors.
struct Leaks {
    var threads = 0
    var descriptors = 0
    var microsecondsARun = 0.0

    static let role = "leaks"
    private static let ours = "ours"

    /// In a child, so that nothing else comes and goes, and what is left goes with it.
    static func ofOurs(runs: Int) throws -> Leaks { try Leaks("\(role) \(ours) \(runs)") }
    static func ofCF(runs: Int) throws -> Leaks { try Leaks("\(role) CF \(runs)") }

    private init(_ role: String) throws {
        let words = try Child.output(role).split(separator: " ")
        guard words.count == 3, let threads = Int(words[0]), let descriptors = Int(words[1]),
            let time = Double(words[2])
        else { throw BenchError.noChild }
        self.threads = threads
        self.descriptors = descriptors
        microsecondsARun = time
    }

    /// The child's side.
    static func serve(_ words: [String]) throws {
        guard words.count == 3, let runs = Int(words[2]) else { throw BenchError.role(words.joined(separator: " ")) }
        let leaks = try PlainThread.run {
            cb_wait_exactly()
            return words[1] == ours
                ? try Leaks(of: OurLoop(mode: "leaks"), runs: runs) : try Leaks(of: CFLoop(mode: "leaks"), runs: runs)
        }
        print(leaks.threads, leaks.descriptors, leaks.microsecondsARun)
    }

    private init(of loop: some LoopContender, runs: Int) throws {
        loop.addSource0()
        // Descriptors that come with the first run are the loop's own.
        try loop.pass()
        let before = (Self.count("task"), Self.count("fd"))
        let time = try seconds { for _ in 0..<runs { try loop.run(before: 1e-6) } }
        threads = Self.count("task") - before.0
        descriptors = Self.count("fd") - before.1
        microsecondsARun = time / Double(runs) * 1e6
    }

    private static func count(_ directory: String) -> Int {
        guard let directory = opendir("/proc/self/\(directory)") else { return 0 }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        return count
    }
}
