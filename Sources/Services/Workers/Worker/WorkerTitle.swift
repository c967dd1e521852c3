import Glibc

/// The names of a worker's process: one in the log, one in `ps`, and a short one in `top` and in what the kernel logs.
struct WorkerTitle: CustomStringConvertible {
    let pool: String
    let number: Int

    /// The name in errors and the log.
    var description: String { "worker \(number) of \(pool)" }

    /// The name in `ps`.
    var commandLine: String { "\(pool): worker \(number)" }

    /// The name of the process, of which the kernel keeps 15 bytes.
    private var short: String { "w\(number) \(pool)" }

    private static let shortVariable = "PORTS_WORKER_NAME"
    private static let titleVariable = "PORTS_WORKER_TITLE"
    private static let programVariable = "PORTS_WORKER_PROGRAM"

    /// The variables of the environment by which a worker shows its name.
    /// - Parameter program: The first argument that the worker would have without the name in its place.
    func variables(_ program: String) -> [String: String] {
        [Self.shortVariable: short, Self.titleVariable: commandLine, Self.programVariable: program]
    }

    /// Names this process, which is a worker, and gives it its own arguments. Called before anything reads them.
    static func show() {
        // Swift and C read the first argument here. `ps` reads what was there at the start. A program that a wrapper has
        // started has its own argument already.
        if let program = take(programVariable), let title = take(titleVariable),
            let first = CommandLine.unsafeArgv[0], String(cString: first) == title
        {
            CommandLine.unsafeArgv[0] = strdup(program)
        }
        guard let short = take(shortVariable) else { return }
        // Not by `prctl`, which names the calling thread.
        let file = open("/proc/self/comm", O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        defer { close(file) }
        _ = write(file, short, short.utf8.count)
    }

    private static func take(_ variable: String) -> String? {
        defer { unsetenv(variable) }
        return getenv(variable).map { String(cString: $0) }
    }
}
