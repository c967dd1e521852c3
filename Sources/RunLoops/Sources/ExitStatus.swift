import Glibc

extension ThreadRunLoop {
    /// How a process ended.
    public enum ExitStatus: Sendable, Hashable, CustomStringConvertible {
        /// It exited with this status.
        case exited(Int32)
        /// It was ended by this signal.
        case signaled(Int32)
        /// It has ended, and somebody else has collected how: another `wait`, or the kernel where SIGCHLD is ignored.
        case unknown

        /// A phrase that fits after a process's name.
        public var description: String {
            switch self {
            case .exited(let status): "exited with status \(status)"
            case .signaled(let signal): "was ended by signal \(signal) (\(String(cString: strsignal(signal))))"
            case .unknown: "ended, and its status was collected elsewhere"
            }
        }
    }
}
