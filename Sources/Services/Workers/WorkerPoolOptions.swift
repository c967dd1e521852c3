import TypedPorts

extension WorkerPool {
    /// How a pool treats its workers and its requests. Each has a default.
    public struct Options: Sendable {
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
}

/// A worker of a pool. See ``WorkerPool/workers``.
public struct WorkerStatus: Sendable, Hashable {
    /// The name in errors and the log.
    public let name: String
    /// The process.
    public let pid: Int32
    /// The requests that were given to it and have no outcome yet. The last one may still be on its way there.
    public let requestsInProgress: Int
    /// The requests that it has had, with those in progress.
    public let requests: Int
    /// Whether it is one of the pool's ``WorkerPool/Options/spares``, and waits for the end of another worker.
    public let isSpare: Bool
}
