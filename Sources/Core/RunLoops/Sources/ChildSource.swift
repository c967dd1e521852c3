import CRunLoopShims
import Glibc

extension ThreadRunLoop.Source1 {
    /// A source for the end of a child process. The source collects the child, so no other code may `wait` for it. Then
    /// the source is invalid, and calls the handler on the loop's thread.
    /// - Throws: ``RunLoopError`` when this process has no such child, or no descriptor is left.
    public static func child(
        _ pid: pid_t, handler: @escaping @Sendable (ThreadRunLoop.ExitStatus) -> Void
    ) throws(RunLoopError) -> ThreadRunLoop.Source1 {
        try child(pid, whenEnded: { _ in }, handler: handler)
    }

    /// - Parameter whenEnded: Called before the child is collected, with whether its number is still its own: nobody else has
    ///   collected it.
    package static func child(
        _ pid: pid_t, whenEnded: @escaping @Sendable (_ isUncollected: Bool) -> Void,
        handler: @escaping @Sendable (ThreadRunLoop.ExitStatus) -> Void
    ) throws(RunLoopError) -> ThreadRunLoop.Source1 {
        if crl_is_forked() { throw .forked }
        let process = try ProcessDescriptor(pid)
        return ThreadRunLoop.Source1(descriptor: process.descriptor, label: "child \(pid)") { turn in
            if process.hasEnded { whenEnded(crl_pidfd_is_child(process.descriptor)) }
            guard let status = process.collect() else { return false }
            turn.source.invalidate()
            handler(status)
            return true
        }
    }
}

extension ThreadRunLoop {
    /// How a process ended.
    public enum ExitStatus: Sendable, Hashable, CustomStringConvertible {
        /// The process exited with this status.
        case exited(Int32)
        /// This signal has ended the process.
        case signaled(Int32)
        /// Unknown: another `wait` has collected the status, or the kernel has, where SIGCHLD is ignored.
        case unknown

        /// A phrase to follow the name of a process.
        public var description: String {
            switch self {
            case .exited(let status): "exited with status \(status)"
            case .signaled(let signal): "was ended by signal \(signal) (\(String(cString: strsignal(signal))))"
            case .unknown: "ended, and its status was collected elsewhere"
            }
        }
    }
}

private final class ProcessDescriptor: Sendable {
    let descriptor: Int32

    init(_ pid: pid_t) throws(RunLoopError) {
        descriptor = crl_pidfd_open(pid)
        guard descriptor >= 0 else { throw [ESRCH, EINVAL].contains(errno) ? .notAChild(pid) : .last("pidfd_open") }
        // The wait for another process's child would only fail after its end.
        guard crl_pidfd_is_child(descriptor) else { throw .notAChild(pid) }
    }

    deinit { close(descriptor) }

    var hasEnded: Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, 0) == 1
    }

    func collect() -> ThreadRunLoop.ExitStatus? {
        var status: Int32 = 0
        return switch crl_pidfd_collect(descriptor, &status) {
        case 0: nil
        case 1: status >= 0 ? .exited(status) : .signaled(-status)
        default: .unknown
        }
    }
}
