#if CommandLine
    import ArgumentParser
    import Glibc
    import Ports
    import RunLoops

    @main
    struct WordCount: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "wordcount",
            abstract: "Count the lines, words and bytes of files, as wc does, with workers that check in over ports.",
            usage: """
                wordcount [--threads N | --processes N] PATH…
                wordcount --summary [--threads N] [--processes N] PATH…
                """
        )

        @Option(help: ArgumentHelp("Count with so many threads; 4 if nothing else is said.", valueName: "N"))
        var threads: Int?

        @Option(help: ArgumentHelp("Count with so many child processes.", valueName: "N"))
        var processes: Int?

        @Flag(help: "Count with threads and then with processes, and compare; a page in place of a line for each file.")
        var summary = false

        @Flag(help: .hidden)
        var worker = false

        @Argument(help: ArgumentHelp("A file, or a directory: all regular files below it.", valueName: "PATH"))
        var paths: [String] = []

        static let mostWorkers = 256

        mutating func validate() throws {
            if worker { return }
            if threads != nil, processes != nil, !summary {
                throw ValidationError("--threads and --processes exclude each other, but for --summary.")
            }
            guard [threads, processes].allSatisfy({ (1...Self.mostWorkers).contains($0 ?? 1) }) else {
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
            let tree = FileTree(at: rawPaths)
            do throws(Ended) {
                guard summary else {
                    let report =
                        if let processes { try run(.processes, processes, tree) } else {
                            try run(.threads, threads ?? 4, tree)
                        }
                    return try print(report) { (output) throws(IOError) in try report.write(to: output) }
                }
                var summary = Summary(paths: paths)
                for (kind, size) in [(Pool.Kind.threads, threads ?? 4), (.processes, processes ?? 4)] {
                    let start = ContinuousClock.now
                    let report = try run(kind, size, tree)
                    summary.add(report, of: "\(size) \(kind)", in: .now - start)
                }
                let status = try print(summary.report) { (output) throws(IOError) in try summary.write(to: output) }
                return summary.isAgreed ? status : 1
            } catch {
                return error.status
            }
        }

        /// The end of a run without a report.
        private struct Ended: Error {
            let status: Int32
        }

        @MainActor
        private func run(_ kind: Pool.Kind, _ size: Int, _ tree: FileTree) throws(Ended) -> Report {
            let pool = Pool(kind, size: size, tree)
            do {
                try finish(pool)
            } catch {
                pool.end(isDone: false)
                Progress.note("\(error)")
                throw Ended(status: 1)
            }
            if let signal = pool.signal { throw Ended(status: 128 + signal) }
            if let failure = pool.failure {
                Progress.note(failure)
                throw Ended(status: 1)
            }
            return pool.report
        }

        @MainActor
        private func finish(_ pool: Pool) throws {
            let signals = try [SIGINT, SIGTERM, SIGHUP].map { signal in
                try ThreadRunLoop.Source1.signal(signal) { _ in
                    MainActor.assumeIsolated { pool.interrupt(by: signal) }
                }
            }
            for source in signals { try ThreadRunLoop.main.add(source) }
            defer { for source in signals { source.invalidate() } }
            try pool.start()
            Progress.show(pool)
            defer { Progress.end() }
            while pool.isRunning { try ThreadRunLoop.main.run() }
            pool.end(isDone: pool.signal == nil && pool.failure == nil)
        }

        /// - Returns: The exit status.
        @MainActor
        private func print(_ report: Report, _ write: (Int32) throws(IOError) -> Void) throws(Ended) -> Int32 {
            do throws(IOError) {
                try report.writeErrors(to: STDERR_FILENO)
                try write(STDOUT_FILENO)
            } catch {
                Progress.note("standard output: \(error)")
                throw Ended(status: 1)
            }
            return report.hasErrors ? 1 : 0
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
#endif
