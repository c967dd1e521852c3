import CRunLoopShims
import Glibc
import Logging
import Ports
import RunLoopLocks
import RunLoops

/// A pipe for a standard stream of a worker. Its ends are closed with the last references.
struct WorkerPipe: Sendable {
    let reading: OwnedDescriptor
    let writing: OwnedDescriptor
    let level: Logger.Level

    /// - Parameter level: The level of the lines in the log.
    init(_ level: Logger.Level) throws(PortError) {
        var ends: [Int32] = [-1, -1]
        guard crl_pipe(&ends) == 0 else { throw PortError.last("pipe2") }
        (reading, writing, self.level) = (OwnedDescriptor(ends[0]), OwnedDescriptor(ends[1]), level)
    }
}

/// A standard stream of a worker, on its way into the log. Only the log's thread reads it.
final class WorkerStream: Sendable {
    let source: ThreadRunLoop.Source1
    private let lines: LoggedLines

    init(_ pipe: WorkerPipe, _ logger: Logger) {
        let lines = LoggedLines(pipe, logger)
        self.lines = lines
        source = .descriptor(pipe.reading.number, label: "output of a worker") { _, _ in _ = lines.read() }
    }

    /// The worker has ended. Processes that it has started may have the pipe open still, and nobody reads what they write
    /// from now on.
    func end() {
        // A pipe holds no more.
        var left = 1 << 20
        while left > 0, let count = lines.read() { left -= count }
        lines.end()
        source.invalidate()
    }
}

/// The lines that come by a pipe.
private final class LoggedLines: Sendable {
    private let pipe: OwnedDescriptor
    private let level: Logger.Level
    private let logger: Logger
    private let cutter = Lock(LineCutter())

    init(_ pipe: WorkerPipe, _ logger: Logger) { (self.pipe, level, self.logger) = (pipe.reading, pipe.level, logger) }

    /// Logs lines that are there, at most 64 KiB.
    /// - Returns: The number of bytes; nil for none.
    func read() -> Int? {
        let bytes = [UInt8](unsafeUninitializedCapacity: 64 << 10) { buffer, count in
            count = max(Glibc.read(pipe.number, buffer.baseAddress, buffer.count), 0)
        }
        for line in cutter.withLock({ $0.add(bytes) }) { logger.log(level: level, "\(line)") }
        return bytes.isEmpty ? nil : bytes.count
    }

    /// Logs a last line without an end.
    func end() { if let line = cutter.withLock({ $0.end() }) { logger.log(level: level, "\(line)") } }
}
