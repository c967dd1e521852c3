import Glibc
import RunLoops
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

    /// - Parameter option: `SO_ACCEPTCONN` for sockets that listen alone.
    private static func isControlSocket(_ descriptor: Int32, _ option: Int32) -> Bool {
        func value(_ option: Int32) -> Int32 {
            var (value, size) = (Int32(0), socklen_t(4))
            getsockopt(descriptor, SOL_SOCKET, option, &value, &size)
            return value
        }
        return value(SO_TYPE) == Int32(SOCK_SEQPACKET.rawValue) && value(option) != 0
    }

    private static func handle(_ work: Work) async throws -> Done {
        print(work.output, terminator: "")
        _ = write(STDERR_FILENO, work.errors, work.errors.utf8.count)
        if let record = work.record { append("\(work.number)\n", to: record) }
        var done = Done(number: work.number, pid: getpid(), arguments: CommandLine.arguments)
        switch work.kind {
        case .answer: break
        case .fail: throw Work.Refused()
        case .cancel: throw CancellationError()
        case .segfault:
            // Sanitizers have an action of their own.
            signal(SIGSEGV, SIG_DFL)
            raise(SIGSEGV)
        case .crash: UnsafeMutablePointer<Int>(bitPattern: 16)?.pointee = 1
        case .close:
            // The socket that listens first: through it the pool would connect again.
            for option in [SO_ACCEPTCONN, SO_TYPE] {
                for descriptor in 3..<Int32(1024) where isControlSocket(descriptor, option) { close(descriptor) }
            }
            while true { usleep(100_000) }
        case .trap: fatalError("as the test wants")
        case .kill: raise(SIGKILL)
        case .exit: exit(7)
        case .hang: while true { usleep(100_000) }
        case .sleep: try await Task.sleep(for: .seconds(600))
        case .late: usleep(150_000)
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
    /// A second argument is the name of a port. Other first arguments are no paths.
    static func run() async throws {
        switch CommandLine.arguments[1] {
        case "growth": return try await measureGrowth(CommandLine.arguments[2])
        case "late": return try await askLate(CommandLine.arguments[2])
        default: break
        }
        let server = CommandLine.arguments.count > 2 ? try RequestServer(name: CommandLine.arguments[2]) : nil
        defer { withExtendedLifetime(server) {} }
        let pool = try WorkerPool(count: 2)
        async let running: Void = pool.run()
        let one = try await pool.request(Work(.orphan), timeout: .seconds(60))
        let other = try await pool.request(Work(.orphan), timeout: .seconds(60))
        append("\(one.pid) \(other.pid) \(one.child ?? 0) \(other.child ?? 0)\n", to: CommandLine.arguments[1])
        try await running
    }

    /// Writes how many bytes the heap grows by for each request that has waited for a worker, and for each wait for the end of
    /// a thread. All could have waited for an hour.
    private static func measureGrowth(_ file: String) async throws {
        let pool = try WorkerPool(count: 1)
        async let running: Void = pool.run()
        func ask(_ count: Int) async throws {
            try await withThrowingTaskGroup { group in
                for _ in 0..<8 {
                    group.addTask {
                        for number in 0..<count / 8 {
                            _ = try await pool.request(Work(.answer, number), timeout: .seconds(3600))
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
        func join(_ count: Int) async throws {
            for _ in 0..<count {
                let thread = try await RunLoopThread(name: "short")
                thread.stop()
                guard try await thread.join(before: .now + .seconds(3600)) else { return }
            }
        }
        /// The least of several rounds: what stays grows in each.
        func growth(_ count: Int, _ body: (Int) async throws -> Void) async throws -> Int {
            var least = Int.max
            for _ in 0..<4 {
                let before = heapUse()
                try await body(count)
                least = min(least, heapUse() - before)
            }
            return max(0, least / count)
        }
        let ofRequests = try await growth(1000, ask)
        let ofJoins = try await growth(300, join)
        append("\(ofRequests) \(ofJoins)\n", to: file)
        await pool.stop()
        try await running
    }

    /// Asks workers that are late for each request but well. Writes their numbers, again and again.
    private static func askLate(_ file: String) async throws {
        var options = WorkerPool.Options()
        (options.startTime, options.hangTime, options.intensity.most) = (.seconds(60), .milliseconds(400), 0)
        (options.pingPeriod, options.pingTime) = (.milliseconds(50), .milliseconds(400))
        let pool = try WorkerPool(count: 4, options: options)
        try await withThrowingTaskGroup { group in
            group.addTask { try await pool.run() }
            _ = await waitUntil { pool.workers.count == 4 }
            for _ in 0..<4 {
                group.addTask {
                    while true { _ = try? await pool.request(Work(.late), timeout: .milliseconds(50)) }
                }
            }
            while true {
                append(pool.workers.map { "\($0.pid)" }.sorted().joined(separator: " ") + "\n", to: file)
                try await Task.sleep(for: .milliseconds(50))
            }
        }
    }

    private static func append(_ text: String, to path: String) {
        let file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        defer { close(file) }
        let bytes = Array(text.utf8)
        _ = write(file, bytes, bytes.count)
    }
}
