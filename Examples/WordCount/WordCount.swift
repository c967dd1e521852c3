import ArgumentParser
import Glibc
import Ports
import RunLoops

@main
struct WordCount: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wordcount",
        abstract: "Count the lines, words and bytes of files, as wc does, with workers that check in over ports.",
        usage: "wordcount [--threads N | --processes N] PATH…"
    )

    @Option(help: ArgumentHelp("Count with so many threads; 4 if nothing else is said.", valueName: "N"))
    var threads: Int?

    @Option(help: ArgumentHelp("Count with so many child processes.", valueName: "N"))
    var processes: Int?

    @Flag(help: .hidden)
    var worker = false

    @Argument(help: ArgumentHelp("A file, or a directory: all regular files below it.", valueName: "PATH"))
    var paths: [String] = []

    static let mostWorkers = 256

    mutating func validate() throws {
        if worker { return }
        if threads != nil, processes != nil {
            throw ValidationError("--threads and --processes exclude each other.")
        }
        guard (1...Self.mostWorkers).contains(threads ?? processes ?? 1) else {
            throw ValidationError("The number of workers goes from 1 to \(Self.mostWorkers).")
        }
        if paths.isEmpty { throw ValidationError("Missing expected argument 'PATH…'") }
    }

    /// The parser's own exit status for wrong usage is 64; wc's is not, and ours is 2.
    static func main() {
        do {
            let command = try parse()
            try command.run()
        } catch {
            let isUsage = exitCode(for: error) == .validationFailure
            if isUsage {
                write(fullMessage(for: error) + "\n", to: STDERR_FILENO)
                Glibc.exit(2)
            }
            exit(withError: error)
        }
    }

    func run() throws {
        // A closed pipe is an error to report, not to die of.
        signal(SIGPIPE, SIG_IGN)
        if worker {
            do {
                return try Worker.runProcess()
            } catch {
                // Not worth a word when main has gone meanwhile.
                Glibc.exit(3)
            }
        }
        let status = MainActor.assumeIsolated { count() }
        Glibc.exit(status)
    }

    // MARK: The run

    @MainActor
    private func count() -> Int32 {
        let pool = Pool(
            processes == nil ? .threads : .processes, size: processes ?? threads ?? 4, FileTree(at: rawPaths))
        do {
            return try count(with: pool)
        } catch {
            pool.end(isDone: false)
            Progress.note("\(error)")
            return 1
        }
    }

    @MainActor
    private func count(with pool: Pool) throws -> Int32 {
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            try ThreadRunLoop.main.add(
                .signal(signal) { _ in MainActor.assumeIsolated { pool.interrupt(by: signal) } })
        }
        try pool.start()
        Progress.show(pool)
        while pool.isRunning { try ThreadRunLoop.main.run() }
        Progress.clear()
        pool.end(isDone: pool.signal == nil && pool.failure == nil)

        if let signal = pool.signal { return 128 + signal }
        if let failure = pool.failure {
            Progress.note(failure)
            return 1
        }
        do throws(IOError) {
            try pool.report.writeErrors(to: STDERR_FILENO)
            try pool.report.write(to: STDOUT_FILENO)
        } catch {
            Progress.note("standard output: \(error)")
            return 1
        }
        return pool.report.hasErrors ? 1 : 0
    }

    /// The paths as the system gave them: what is no UTF-8 would not survive being a `String`.
    private var rawPaths: [[UInt8]] {
        var raw: [String: [[UInt8]]] = [:]
        for case let argument? in UnsafeBufferPointer(start: CommandLine.unsafeArgv, count: Int(CommandLine.argc)) {
            let bytes = Array(UnsafeRawBufferPointer(start: argument, count: strlen(argument)))
            raw[String(decoding: bytes, as: UTF8.self), default: []].append(bytes)
        }
        return paths.map { path in
            // Two that look the same as a `String` come in the order they were given.
            guard var candidates = raw[path], !candidates.isEmpty else { return Array(path.utf8) }
            let bytes = candidates.removeFirst()
            if !candidates.isEmpty { raw[path] = candidates }
            return bytes
        }
    }
}

private func write(_ text: String, to descriptor: Int32) {
    var output = OutputBuffer(to: descriptor)
    try? output.write(text.utf8)
    try? output.flush()
}
