import CRunLoopShims
import Glibc
import Logging
import RunLoops
import Synchronization

let log = Log()

/// The library's log.
///
/// Writing to a log may block, on a pipe that nobody reads, or raise SIGPIPE. So only a thread does it that nobody waits
/// for, and that exists as long as there are lines. A thread that says something here puts a line into a queue.
final class Log: Sendable {
    private struct Line {
        let level: Logger.Level
        let text: String
    }

    private struct State {
        var limit = LineLimit()
        /// Whether somebody will say how many lines were left out, when the minute is over.
        var willTellOmitted = false
        var queue: [Line] = []
        /// How many lines the queue had no room for.
        var lost = 0
        var isWriting = false
    }

    private let state = Mutex(State())

    private static let longestQueue = 256

    // MARK: Saying something

    /// - Parameters:
    ///   - subject: Whom it is about.
    ///   - kind: What it says of the subject, when it is to say so once.
    ///   - text: The line.
    func warning(
        about subject: LineLimit.Subject = .own, once kind: String? = nil, _ text: @autoclosure () -> String
    ) { note(.warning, subject, kind, text) }

    func error(about subject: LineLimit.Subject = .own, once kind: String? = nil, _ text: @autoclosure () -> String) {
        note(.error, subject, kind, text)
    }

    func info(about subject: LineLimit.Subject = .own, once kind: String? = nil, _ text: @autoclosure () -> String) {
        note(.info, subject, kind, text)
    }

    private func note(_ level: Logger.Level, _ subject: LineLimit.Subject, _ kind: String?, _ text: () -> String) {
        // The lock may have been another thread's at the time of the fork.
        guard !crl_is_forked() else { return }
        let (isAdmitted, mustTell) = state.withLock { state in
            let isAdmitted = state.limit.admits(subject, once: kind, at: .now)
            defer { state.willTellOmitted = state.limit.omitted > 0 }
            return (isAdmitted, state.limit.omitted > 0 && !state.willTellOmitted)
        }
        if mustTell { tellOmittedLater() }
        if isAdmitted { enqueue(Line(level: level, text: text())) }
    }

    private func tellOmittedLater() {
        // Without the thread, the exit tells.
        guard let loop = try? PortProcess.current.housekeepingLoop() else { return }
        let end = state.withLock { $0.limit.end }
        loop.add(ThreadRunLoop.Timer(at: end, label: "lines left out of the log") { _ in self.tellOmitted() })
    }

    private func tellOmitted() {
        let count = state.withLock { state in
            state.willTellOmitted = false
            return state.limit.takeOmitted()
        }
        guard count > 0 else { return }
        enqueue(Line(level: .warning, text: "\(count) more lines were left out, as they were too many"))
    }

    // MARK: Writing

    private func enqueue(_ line: Line) {
        let isFirst = state.withLock { state in
            guard state.queue.count < Self.longestQueue else {
                state.lost += 1
                return false
            }
            state.queue.append(line)
            defer { state.isWriting = true }
            return !state.isWriting
        }
        // Without a thread, the lines wait for the next one's.
        if isFirst, !startThread() { state.withLock { $0.isWriting = false } }
    }

    private func startThread() -> Bool {
        var thread = pthread_t()
        let argument = Unmanaged.passUnretained(self).toOpaque()
        let error = pthread_create(
            &thread, nil,
            { argument in
                if let argument { Unmanaged<Log>.fromOpaque(argument).takeUnretainedValue().write() }
                return nil
            }, argument)
        if error == 0 { pthread_detach(thread) }
        return error == 0
    }

    /// Made when there is a line, for a program may set its log up until then.
    private static let logger = Logger(label: "swift-ports")

    private func write() {
        crl_thread_set_name("ports log")
        // Else the end of who reads the log would be the program's.
        var pipe = sigset_t()
        sigemptyset(&pipe)
        sigaddset(&pipe, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &pipe, nil)
        while let lines = next() {
            for line in lines { Self.logger.log(level: line.level, "\(line.text)") }
        }
    }

    /// What is to be written; nil when it is all written.
    private func next() -> [Line]? {
        state.withLock { state in
            state.isWriting = !state.queue.isEmpty
            guard state.isWriting else { return nil }
            var lines = state.queue
            if state.lost > 0 {
                lines.append(Line(level: .warning, text: "\(state.lost) more lines were lost, as the log took none"))
            }
            (state.queue, state.lost) = ([], 0)
            return lines
        }
    }

    /// Gives what is to be written a moment. The process ends.
    func close(before deadline: MonotonicInstant) {
        tellOmitted()
        while state.withLock({ $0.isWriting }), !deadline.hasPassed { usleep(500) }
    }
}
