import CRunLoopShims
import Glibc

extension ThreadRunLoop.Source1 {
    /// A source for the end of a child process. The kernel tells it through a descriptor, so that no signal is
    /// involved.
    ///
    /// The source collects the child (nobody else may `wait` for it), calls the handler, and is then invalid.
    ///
    /// - Parameters:
    ///   - pid: The child's process id.
    ///   - handler: Called once, on the loop's thread.
    /// - Throws: ``RunLoopError`` when there is no such process, it is no child of this one, or no descriptor is left.
    public static func child(
        _ pid: pid_t, handler: @escaping @Sendable (ThreadRunLoop.ExitStatus) -> Void
    ) throws(RunLoopError) -> ThreadRunLoop.Source1 {
        if crl_is_forked() { throw .forked }
        let process = try ProcessDescriptor(pid)
        return ThreadRunLoop.Source1(descriptor: process.descriptor, label: "child \(pid)") { turn in
            guard let status = process.collect() else { return false }
            turn.source.invalidate()
            handler(status)
            return true
        }
    }
}

/// A pidfd.
private final class ProcessDescriptor: Sendable {
    let descriptor: Int32

    init(_ pid: pid_t) throws(RunLoopError) {
        descriptor = crl_pidfd_open(pid)
        guard descriptor >= 0 else {
            throw [ESRCH, EINVAL].contains(errno) ? .notAChild(pid) : .last("pidfd_open")
        }
        // Another's child would only be known to have ended by a wait that fails.
        guard crl_pidfd_is_child(descriptor) else { throw .notAChild(pid) }
    }

    deinit { close(descriptor) }

    /// How it ended; nil while it runs.
    func collect() -> ThreadRunLoop.ExitStatus? {
        var status: Int32 = 0
        return switch crl_pidfd_collect(descriptor, &status) {
        case 0: nil
        case 1: status >= 0 ? .exited(status) : .signaled(-status)
        default: .unknown
        }
    }
}
