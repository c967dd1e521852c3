import CRunLoopShims
import Glibc
import Logging
import RunLoopLocks
import RunLoops

package let log = Log()

/// The library's log. A write may block or raise SIGPIPE, so a thread of the log's own writes the lines. The thread
/// lives while there are lines to write.
package final class Log: Sendable {
    private typealias Lines = [(level: Logger.Level, text: String)]

    private struct State {
        var limit = LogRateLimit()
        var queue: Lines = []
        var lost = 0
        var isWriting = false
        /// The writing thread waits for this latch until it may report the number of omitted lines.
        var rest: Latch?
        var isClosing = false
    }

    private let state = Lock(State())
    private let standardError = StandardError()

    /// Writes a line about a peer, or about this process.
    /// - Parameters:
    ///   - subject: The subject, which has its own limit of lines.
    ///   - kind: A kind of fault, which is written once for each subject; nil to write each line.
    ///   - text: The line.
    package func warning(
        about subject: LogRateLimit.Subject = .own, once kind: String? = nil, _ text: @autoclosure () -> String
    ) { append(.warning, subject, kind, text) }

    package func error(once kind: String? = nil, _ text: @autoclosure () -> String) { append(.error, .own, kind, text) }

    func info(about subject: LogRateLimit.Subject, _ text: @autoclosure () -> String) {
        append(.info, subject, nil, text)
    }

    /// Writes a change in the state of a connection or a port.
    func debug(_ text: @autoclosure () -> String) { if Self.level <= .debug { tell(.debug, text()) } }

    /// Writes a step of a message. Code on the way of messages reads ``tellsMessages`` once, and keeps the answer.
    func trace(_ text: @autoclosure () -> String) { if Self.tellsMessages { tell(.trace, text()) } }

    /// Writes a line without the rate limit, because somebody has chosen a level that includes all lines.
    private func tell(_ level: Logger.Level, _ text: String) { if !Fork.isChild { append((level, text)) } }

    private func append(_ level: Logger.Level, _ subject: LogRateLimit.Subject, _ kind: String?, _ text: () -> String) {
        guard let isAdmitted = state.withLockUnlessForked({ $0.limit.admits(subject, once: kind, at: .now) }) else {
            return
        }
        append(isAdmitted ? (level, text()) : nil)
    }

    private func append(_ line: Lines.Element?) {
        let most = Self.level <= .debug ? 65_536 : 256
        let (needsThread, rest) = state.withLock { state in
            if let line {
                if state.queue.count < most { state.queue.append(line) } else { state.lost += 1 }
            }
            // A repeated fault is neither written nor counted as omitted, and needs no thread.
            let needsThread = !state.isWriting && (line != nil || state.limit.omitted > 0)
            if needsThread { state.isWriting = true }
            return (needsThread, line == nil ? nil : state.rest.take())
        }
        rest?.open()
        guard needsThread else { return }
        let thread = try? RunLoopThread.startThread { self.write() }
        // Without a thread, the lines wait for the next attempt.
        if let thread { pthread_detach(thread) } else { state.withLock { $0.isWriting = false } }
    }

    private static let label = "swift-ports"
    /// The level in `PORTS_LOG_LEVEL`, which overrides the level that the program has chosen.
    private static let chosenLevel = levelWord.flatMap { Logger.Level(rawValue: $0) }
    private static let levelWord = getenv("PORTS_LOG_LEVEL").map { String(cString: $0).lowercased() }

    /// Warns about a value of `PORTS_LOG_LEVEL` that is no level.
    func checkLevel() {
        guard let word = Self.levelWord, !word.isEmpty, Self.chosenLevel == nil else { return }
        let levels = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
        warning("PORTS_LOG_LEVEL is \(word.quoted), which is none of \(levels)")
    }

    /// The lowest level that is written. Without `PORTS_LOG_LEVEL`, it is the level of the program's logging system
    /// when the program makes its first port or right.
    private static let level = chosenLevel ?? Logger(label: label).logLevel
    static let tellsMessages = level <= .trace

    /// Made with the first line, because the program may set up its logging system until then.
    private static let logger = {
        var logger = Logger(label: label)
        if let chosenLevel { logger.logLevel = chosenLevel }
        return logger
    }()

    private func write() {
        crl_thread_set_name("ports log")
        // A closed pipe, or a log file at the size limit, must not end the program by a signal.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        sigaddset(&signals, SIGXFSZ)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        while let (lines, rest) = nextStep() {
            for line in lines where hasTaker { Self.logger.log(level: line.level, "\(line.text)") }
            if let (latch, end) = rest { _ = latch.wait(until: end) }
        }
    }

    /// Whether the lines may be written. A handler of the program's own takes all lines. swift-log's default handler
    /// writes to descriptor 2, which may have become another file.
    private var hasTaker: Bool { !(Self.logger.handler is StreamLogHandler) || standardError.isInPlace }

    /// The lines to write now, or the latch to wait for; nil when the thread may end.
    private func nextStep() -> (lines: Lines, rest: (Latch, until: MonotonicInstant)?)? {
        state.withLock { state in
            state.rest = nil
            var lines = state.queue
            if state.lost > 0 { lines.append((.warning, "\(state.lost) more lines were lost: the log was blocked")) }
            (state.queue, state.lost) = ([], 0)
            if lines.isEmpty, state.limit.omitted > 0 {
                guard state.isClosing || state.limit.end.hasPassed else {
                    let latch = Latch()
                    state.rest = latch
                    return ([], (latch, state.limit.end))
                }
                let count = state.limit.takeOmitted()
                lines.append((.warning, "\(count) more lines were left out by the rate limit"))
            }
            state.isWriting = !lines.isEmpty
            return lines.isEmpty ? nil : (lines, nil)
        }
    }

    /// Waits at exit until all lines are written, or until the deadline.
    func close(before deadline: MonotonicInstant) {
        let rest = state.withLock { state in
            state.isClosing = true
            return state.rest
        }
        rest?.open()
        while state.withLock({ $0.isWriting }), !deadline.hasPassed { usleep(500) }
    }
}
