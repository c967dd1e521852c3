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
