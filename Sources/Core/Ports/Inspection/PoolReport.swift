/// The state of a pool of workers.
package struct PoolReport: Sendable {
    /// The counts since the pool runs.
    package struct Tally: Sendable {
        /// The requests that have waited for a worker, and wait no more.
        package var waited = 0
        /// The time for which they have waited, added up.
        package var waitTime = Duration.zero
        /// The workers that have ended, by the cause.
        package var ended: [String: Int] = [:]

        package init() {}
    }

    package let name: String
    package let count: Int
    package let spares: Int
    package let waiting: Int
    package let restarts: Int
    package let workers: [PortInfo.Worker]
    package let tally: Tally

    package init(
        name: String, count: Int, spares: Int, waiting: Int, restarts: Int, workers: [PortInfo.Worker], tally: Tally
    ) {
        (self.name, self.count, self.spares, self.waiting) = (name, count, spares, waiting)
        (self.restarts, self.workers, self.tally) = (restarts, workers, tally)
    }
}

extension PortInfo {
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

        package init(_ report: PoolReport) {
            (name, count, spares) = (report.name.bounded, report.count, report.spares)
            (waiting, restarts, workers) = (report.waiting, report.restarts, Array(report.workers.prefix(256)))
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
