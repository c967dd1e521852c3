extension PortService {
    /// A pool of worker processes of the owner's process. The module Workers has pools.
    public struct Pool: Sendable, Hashable, Codable {
        /// The pool's name.
        public let name: String
        /// The number of workers that take requests, when all have started.
        public let count: Int
        /// The number of workers that are ready to take the place of others, when all have started.
        public let spares: Int
        /// The requests that wait for a worker.
        public let waiting: Int
        /// The workers that took the place of earlier ones since the pool runs.
        public let restarts: Int
        /// The workers that run, at most 256.
        public let workers: [Worker]

        package init(name: String, count: Int, spares: Int, waiting: Int, restarts: Int, workers: [Worker]) {
            (self.name, self.count, self.spares) = (name.bounded, count, spares)
            (self.waiting, self.restarts, self.workers) = (waiting, restarts, Array(workers.prefix(256)))
        }
    }

    /// A worker of a ``Pool``.
    public struct Worker: Sendable, Hashable, Codable {
        /// The worker's process.
        public let pid: Int32
        /// The requests that it has now.
        public let busy: Int
        /// The requests that it has had, with those in progress.
        public let requests: Int
        /// Whether it waits to take the place of another worker.
        public let isSpare: Bool

        private enum CodingKeys: String, CodingKey { case pid, busy, requests, isSpare = "spare" }

        package init(pid: Int32, busy: Int, requests: Int, isSpare: Bool) {
            (self.pid, self.busy, self.requests, self.isSpare) = (pid, busy, requests, isSpare)
        }
    }
}
