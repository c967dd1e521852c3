extension ThreadRunLoop {
    /// Why a run of a loop ended. The corresponding CF type is `CFRunLoopRunResult`.
    public enum RunResult: Sendable, Hashable {
        /// The mode has no source, timer or block left.
        case finished
        /// ``ThreadRunLoop/stop()`` was called.
        case stopped
        /// The time limit has come.
        case timedOut
        /// A source was handled, in a run that returns after a source.
        case handledSource
    }
}
