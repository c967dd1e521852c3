import Glibc
import Logging
import Ports
import RunLoops

/// Logs what the workers of one run of a pool write. A thread of its own calls the logger, because a logger may block.
final class OutputLog: Sendable {
    private let logger: Logger
    private let thread: RunLoopThread

    init(_ logger: Logger) async throws(RunLoopError) {
        self.logger = logger
        thread = try await RunLoopThread(name: "pool output")
    }

    /// Gives a program's inherited streams pipes instead.
    /// - Returns: The pipes. Their writing ends are closed with the last reference.
    func redirect(_ program: inout WorkerProcess.Configuration) throws(PortError) -> [WorkerPipe] {
        var pipes: [WorkerPipe] = []
        if program.standardOutput == .inherit {
            let pipe = try WorkerPipe(.info)
            program.standardOutput = .descriptor(pipe.writing.number)
            pipes.append(pipe)
        }
        if program.standardError == .inherit {
            let pipe = try WorkerPipe(.notice)
            program.standardError = .descriptor(pipe.writing.number)
            pipes.append(pipe)
        }
        return pipes
    }

    /// Logs what comes by the pipes of a worker.
    /// - Returns: A closure to call when the worker has ended. It does not block.
    func read(_ pipes: [WorkerPipe], of name: String, _ pid: Int32) throws(RunLoopError) -> @Sendable () -> Void {
        var logger = logger
        logger[metadataKey: "worker"] = "\(name)"
        logger[metadataKey: "pid"] = "\(pid)"
        let streams = pipes.map { WorkerStream($0, logger) }
        for stream in streams { try thread.loop.add(stream.source) }
        return { [thread] in
            // Nothing is read without the thread.
            try? thread.loop.perform { for stream in streams { stream.end() } }
        }
    }

    /// Waits for the last records, unless the logger takes too long.
    func end() async {
        thread.finish()
        _ = try? await Task { [thread] in try await thread.join(before: .now + .seconds(1)) }.value
    }
}
