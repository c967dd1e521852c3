import CRunLoopShims
import Glibc

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
