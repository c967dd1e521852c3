import CRunLoopShims
import Glibc

/// The report of a worker that crashes, to its launcher.
///
/// A Swift program writes a backtrace before it ends, which takes seconds. The launcher knows of the crash before that, by
/// an eventfd that the worker inherits.
package enum CrashReport {
    static let variable = "PORTS_CRASHES"
    /// The number of the eventfd in the worker.
    static let descriptor: Int32 = 3

    /// Begins to report crashes to the launcher of this process, if the launcher wants to know.
    ///
    /// This is the only handler of signals that a program gets from this library without asking for it. It is there only in
    /// front of another handler, such as that of Swift's backtraces, and then calls the other one. A handler that the program
    /// installs later takes its place.
    package static func begin() {
        guard let number = getenv(variable).flatMap({ Int32(String(cString: $0)) }) else { return }
        // A program that this one starts has another launcher.
        unsetenv(variable)
        // A wrapper may have given the number to a file of its own.
        guard ProcessStatus.target(ofLink: "/proc/self/fd/\(number)") == "anon_inode:[eventfd]",
            fcntl(number, F_SETFD, FD_CLOEXEC) == 0
        else { return }
        crl_report_crashes(number)
    }
}
