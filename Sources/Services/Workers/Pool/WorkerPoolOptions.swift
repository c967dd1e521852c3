import Glibc
import Logging
import TypedPorts

extension WorkerPool {
    /// How a pool treats its workers and its requests. Each has a default.
    public struct Options: Sendable, WorkerOptions {
        /// The workers that are started and ready beside the pool's count. When a worker ends, a spare takes its place at
        /// once, so that no request waits for the start of a process. The default is 0.
        public var spares = 0
        /// The requests that one worker handles at a time. The default is 1: a crash ends no other request.
        public var requestsPerWorker = 1
        /// The requests that wait for a worker. Further ones throw ``WorkerPoolError/full(pool:limit:)``. The default is
        /// 1000.
        public var queueLimit = 1000
        /// The requests after which a worker is replaced, in case that it leaks; nil for any number, the default.
        public var mostRequests: Int?
        /// The memory of a worker, in bytes: a worker with more is killed. The pool looks four times a second, so a worker
        /// may have more for a moment; a limit of `WorkerProcess.Configuration.limits` is the kernel's. The default is nil.
        public var memoryLimit: Int?
        /// The time in which a worker has to check in after its start. The default is 10 s.
        public var startTime = Duration.seconds(10)
        /// The time in which a worker has to have room again after a request of its own has timed out or was cancelled. The
        /// default is 5 s. The pool does not notice a handler that hangs beside others in one worker, nor one of a stream,
        /// or of a type with a lane of its own.
        public var hangTime = Duration.seconds(5)
        /// The period in which a worker that has nothing to do is asked whether it answers; nil for never, the default.
        public var pingPeriod: Duration?
        /// The time in which such a worker has to answer. The default is 5 s.
        public var pingTime = Duration.seconds(5)
        /// The time from SIGTERM to SIGKILL when the pool stops or replaces a worker. The default is 10 s.
        public var stopTime = Duration.seconds(10)
        /// The restarts that are too many: then ``WorkerPool/run()`` throws. A worker that is replaced as planned does not
        /// count. The default is more than 10 in 10 s.
        public var intensity = RestartIntensity(most: 10, in: .seconds(10))
        /// The wait before a worker starts whose predecessors have had no request before their end: none at first, then from
        /// the lower to the upper bound. The default is from 100 ms to 10 s.
        public var backOff = Duration.milliseconds(100)...Duration.seconds(10)

        /// The place where the workers' standard output and standard error go. The default is `inherited`: the files that the
        /// program's configuration names.
        public var output = Output.inherited

        /// The folder for a worker's temporary files. The default is `inherited`: the one that the environment of the
        /// program's configuration names.
        public var temporaryFolder = TemporaryFolder.inherited

        /// Makes the default options.
        public init() {}

        func check() throws(PortError) {
            try PortError.check("spares", spares, in: 0...10_000)
            try PortError.check("requestsPerWorker", requestsPerWorker, in: 1...1_000_000)
            try PortError.check("queueLimit", queueLimit, in: 0...1_000_000_000)
            try PortError.check("mostRequests", mostRequests ?? 1, in: 1...Int.max)
            try PortError.check("memoryLimit", memoryLimit ?? 1, in: 1...Int.max)
            try PortError.check("intensity.most", intensity.most, in: 0...Int.max)
        }
    }

    /// The place where the workers' standard output and standard error go.
    public enum Output: Sendable {
        /// The files that the program's configuration names: this process's own unless it names others.
        case inherited
        /// A log: each line becomes a record, with the metadata `worker` and `pid`. Lines of the standard output have the
        /// level `info`, and lines of the standard error `notice`. A stream for which the program's configuration names
        /// a file goes there.
        ///
        /// A line over 4 KiB becomes several records, and empty lines are left out. A thread of the pool calls the
        /// logger. While the logger blocks, the workers wait with what they write.
        case log(Logger)

        var logger: Logger? { if case .log(let logger) = self { logger } else { nil } }
    }

    /// The folder for a worker's temporary files, which `TMPDIR` names.
    public enum TemporaryFolder: Sendable, Hashable {
        /// The folder that the environment of the program's configuration names.
        case inherited
        /// A folder for each worker alone, inside the folder of this path, with the mode 0700. It is removed, with all that
        /// is in it, when the worker has ended, however it has ended.
        ///
        /// When the process of the pool is killed, its folders stay. The next run of a pool with the same path and
        /// user removes them.
        case own(inside: String)

        /// A folder for each worker alone, inside this process's own temporary folder.
        public static var own: TemporaryFolder {
            .own(inside: getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp")
        }

        var parent: String? { if case .own(let parent) = self { parent } else { nil } }
    }
}
