import Glibc
import RunLoops

/// The line on standard error that says how far the run is; only where somebody is looking.
@MainActor
enum Progress {
    private static let isShown = isatty(STDERR_FILENO) == 1
    private static var timer: ThreadRunLoop.Timer?

    /// Keeps the line up to date while the loop runs.
    static func show(_ pool: Pool) {
        guard isShown else { return }
        let timer = ThreadRunLoop.Timer(after: .milliseconds(100), repeats: true) { _ in
            MainActor.assumeIsolated {
                write("\r\u{1B}[K\(pool.filesDone) of \(pool.fileCount) files, \(pool.workersAlive) workers")
            }
        }
        _ = try? ThreadRunLoop.main.add(timer)
        self.timer = timer
    }

    /// Keeps the line up to date no more.
    static func end() {
        timer?.invalidate()
        clear()
    }

    /// Takes the line away.
    private static func clear() {
        if isShown { write("\r\u{1B}[K") }
    }

    /// Says something above the line.
    static func note(_ text: String) {
        clear()
        write("wordcount: \(text)\n")
    }

    private static func write(_ text: String) {
        var output = OutputBuffer(to: STDERR_FILENO)
        try? output.write(text.utf8)
        try? output.flush()
    }
}
