extension ThreadRunLoop {
    /// Why a run of a loop ended. The corresponding CF type is `CFRunLoopRunResult`.
    public enum RunResult: Sendable, Hashable {
        /// The mode has no source, timer or block left.
        case finished
        /// ``ThreadRunLoop/stop()`` was called.
        case stopped
        /// The time was over.
        case timedOut
        /// A source was handled, in a run that was asked to return then.
        case handledSource
    }
}
