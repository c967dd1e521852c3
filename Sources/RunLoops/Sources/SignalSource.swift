import CRunLoopShims

extension ThreadRunLoop.Source1 {
    /// A source for a signal of the process: the handler is called on the loop's thread, where it may do anything, with
    /// the number of signals since the last call. Several sources may watch one signal. Tasks use a ``SignalSequence``.
    ///
    /// Until the source is invalidated or released, the signal's default action (such as ending the process) does not
    /// happen. Programs started meanwhile and forked children do not inherit this. The signal may arrive on any thread, and
    /// ends a `sleep`, `poll` or `nanosleep` there early; reads and writes go on (`SA_RESTART`).
    /// - Throws: ``RunLoopError``: `signalNotWatchable`, `tooManySignalSources`, `outOfDescriptors` or `forked`.
    public static func signal(
        _ signal: Int32, handler: @escaping @Sendable (_ count: Int) -> Void
    ) throws(RunLoopError) -> ThreadRunLoop.Source1 {
        if crl_is_forked() { throw .forked }
        let watch = try SignalWatch(signal)
        // A process may have been started with the signal blocked; one thread that takes it is enough.
        crl_signal_unblock(signal)
        return ThreadRunLoop.Source1(
            descriptor: watch.event.descriptor, label: { "signal \(signal)" }, duplicates: true,
            // Not only when the handler is released: it may be running, and raise the signal to have its own action.
            invalidated: { [weak watch] in watch?.end() }
        ) { _ in
            let count = watch.event.clear()
            if count > 0 { handler(Int(clamping: count)) }
            return count > 0
        }
    }
}
