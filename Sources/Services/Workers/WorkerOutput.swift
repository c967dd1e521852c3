import Logging

extension WorkerPool {
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
    }
}
