import Glibc
import TestSupport
import Workers

/// The worker of the tests; without a pool, a parent with a pool whose requests start further processes.
@main struct WorkersTestHelper: WorkerProgram {
    static func work(_ server: RequestServer) {
        server.handle(Work.self) { work in try await handle(work) }
        server.handle(Count.self) { count in
            AsyncStream { continuation in
                for number in 0..<1000 {
                    if number == count.crashesAt { raise(SIGKILL) }
                    continuation.yield(number)
                }
                continuation.finish()
            }
        }
    }

    private static func handle(_ work: Work) async throws -> Done {
        print(work.output, terminator: "")
        _ = write(STDERR_FILENO, work.errors, work.errors.utf8.count)
        if let record = work.record { append("\(work.number)\n", to: record) }
        var done = Done(number: work.number, pid: getpid())
        switch work.kind {
        case .answer: break
        case .fail: throw Work.Refused()
        case .cancel: throw CancellationError()
        case .segfault:
            // Sanitizers have an action of their own.
            signal(SIGSEGV, SIG_DFL)
            raise(SIGSEGV)
        case .trap: fatalError("as the test wants")
        case .kill: raise(SIGKILL)
        case .exit: exit(7)
        case .hang: while true { usleep(100_000) }
        case .sleep: try await Task.sleep(for: .seconds(600))
        case .stop: raise(SIGSTOP)
        case .grow:
            let memory = UnsafeMutableRawPointer.allocate(byteCount: 512 << 20, alignment: 4096)
            memset(memory, 1, 512 << 20)
            try await Task.sleep(for: .seconds(600))
        case .orphan:
            let child = try WorkerProcess.start(.init("/bin/sleep", ["1000"]))
            done.child = child.pid
        case .fill:
            let folder = getenv("TMPDIR").map { String(cString: $0) } ?? ""
            done.folder = folder
            append("text", to: folder + "/file")
            symlink("/", folder + "/link")
            mkdir(folder + "/locked", 0o700)
            append("text", to: folder + "/locked/file")
            chmod(folder + "/locked", 0)
            // Deeper than a path is long.
            chdir(folder)
            for _ in 0..<3000 {
                mkdir("deep", 0o700)
                chdir("deep")
            }
        case .daemon:
            fflush(nil)
            var sleep = WorkerProcess.Configuration("/bin/sleep", ["1000"])
            sleep.processGroup = .ownSession
            let child = try WorkerProcess.start(sleep)
            done.child = child.pid
        }
        return done
    }

    /// Writes the numbers of its workers, and of what they have started, to the file of its argument, and waits for its end.
    /// A second argument is the name of a port.
    static func run() async throws {
        let server = CommandLine.arguments.count > 2 ? try RequestServer(name: CommandLine.arguments[2]) : nil
        defer { withExtendedLifetime(server) {} }
        let pool = try WorkerPool(count: 2)
        async let running: Void = pool.run()
        let one = try await pool.request(Work(.orphan), timeout: .seconds(60))
        let other = try await pool.request(Work(.orphan), timeout: .seconds(60))
        append("\(one.pid) \(other.pid) \(one.child ?? 0) \(other.child ?? 0)\n", to: CommandLine.arguments[1])
        try await running
    }

    private static func append(_ text: String, to path: String) {
        let file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        defer { close(file) }
        let bytes = Array(text.utf8)
        _ = write(file, bytes, bytes.count)
    }
}
