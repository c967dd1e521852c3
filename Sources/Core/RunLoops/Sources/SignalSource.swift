import CRunLoopShims
import Glibc

// The signals that a program handles in its loop.
@_exported import var Glibc.SIGHUP
@_exported import var Glibc.SIGINT
@_exported import var Glibc.SIGQUIT
@_exported import var Glibc.SIGTERM
@_exported import var Glibc.SIGUSR1
@_exported import var Glibc.SIGUSR2

extension ThreadRunLoop.Source1 {
    /// A source for a signal of the process. The handler is called on the loop's thread, where it may do anything, with
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
            // At once, because the handler may be running, and raise the signal for its default action.
            invalidated: { [weak watch] in watch?.end() }
        ) { _ in
            let count = watch.event.clear()
            if count > 0 { handler(Int(clamping: count)) }
            return count > 0
        }
    }
}

/// Makes a signal raise an eventfd, until ``end()`` or as long as the object lives.
final class SignalWatch: Sendable {
    let event: EventDescriptor
    let signal: Int32

    init(_ signal: Int32) throws(RunLoopError) {
        // A fault that a handler does not repair happens again at once, for ever.
        let isFault = [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS].contains(signal)
        if isFault { throw .signalNotWatchable(signal) }
        event = try EventDescriptor()
        self.signal = signal
        guard crl_signal_watch(signal, event.descriptor) == 0 else {
            throw errno == EBUSY ? .tooManySignalSources(signal: signal) : .signalNotWatchable(signal)
        }
    }

    /// Restores the signal's former action, if no other watch is left. It may be called several times.
    func end() {
        // In a forked child a thread of the parent may hold the lock for ever.
        if !crl_is_forked() { crl_signal_unwatch(signal, event.descriptor) }
    }

    deinit { end() }
}
