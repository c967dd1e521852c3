import Glibc

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
