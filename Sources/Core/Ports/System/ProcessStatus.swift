import CRunLoopShims
import Glibc
import RunLoops

/// The state of processes, as `/proc` and pidfds show it.
package enum ProcessStatus {
    /// The start time in clock ticks since boot: the 22nd field of the stat file.
    static func startTime(of pid: pid_t) -> UInt64? {
        fields("/proc/\(pid)/stat").flatMap { $0.count > 19 ? UInt64($0[19]) : nil }
    }

    /// The path of the process's program; nil when the system does not say.
    static func program(of pid: pid_t) -> String? {
        target(ofLink: "/proc/\(pid)/exe")
    }

    static func target(ofLink path: String) -> String? {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(path, &buffer, buffer.count)
        return count > 0 ? String(decoding: buffer.prefix(count), as: UTF8.self) : nil
    }

    /// The memory that a process has in use, in bytes; nil when it has ended.
    package static func memory(of pid: pid_t) -> Int? {
        let pages = Descriptor.text(of: "/proc/\(pid)/statm")?.split(separator: " ").dropFirst().first
        return pages.flatMap { Int($0) }.map { $0 * sysconf(Int32(_SC_PAGESIZE)) }
    }

    /// Whether the process is stopped, as by SIGSTOP or a debugger.
    package static func isStopped(_ pid: pid_t) -> Bool {
        ["T", "t"].contains(fields("/proc/\(pid)/stat")?.first)
    }

    /// The name of a thread of this process.
    static func name(ofThread thread: Int32) -> String? {
        Descriptor.text(of: "/proc/self/task/\(thread)/comm").map { String($0.prefix { $0 != "\n" }) }
    }

    /// Whether a thread of this process is on a processor, or waits for one.
    static func isComputing(thread: Int32) -> Bool { fields("/proc/self/task/\(thread)/stat")?.first == "R" }

    /// Whether the process has ended or is exiting. An exiting process may still have open sockets.
    static func isEnding(_ pid: pid_t) -> Bool {
        guard pid > 0 else { return false }
        guard let leader = fields("/proc/\(pid)/stat") else { return isGone(pid) }
        guard isEnding(leader) else { return false }
        guard showsOwnNamespace else { return isGone(pid) }
        // A program may continue after the end of its first thread.
        let tasks = "/proc/\(pid)/task"
        let threads = (Folder.files(in: tasks) ?? []).map { "\(tasks)/\($0)/stat" }
        // No descriptor may be left to read the folder with.
        if threads.isEmpty { return isGone(pid) }
        return threads.allSatisfy { thread in
            fields(thread).map(isEnding) ?? (access(thread, F_OK) != 0 && errno == ENOENT)
        }
    }

    /// Whether no thread of the process is left. A pidfd shows that without `/proc`. A zombie has no threads.
    private static func isGone(_ pid: pid_t) -> Bool {
        if kill(pid, 0) != 0, errno == ESRCH { return true }
        let descriptor = crl_pidfd_open(pid)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return crl_poll(descriptor, -1, 0) > 0
    }

    /// Checks PF_EXITING among the kernel's flags, the ninth field.
    private static func isEnding(_ fields: [Substring]) -> Bool {
        fields.count > 6 && UInt64(fields[6]).map { $0 & 0x4 != 0 } ?? false
    }

    /// The fields of a stat file from the third on; the second, a name, may hold blanks and parentheses.
    private static func fields(_ path: String) -> [Substring]? {
        guard let text = Descriptor.text(of: path), let end = text.lastIndex(of: ")") else { return nil }
        return text[text.index(after: end)...].split(separator: " ")
    }

    /// Whether the process with the id `pid` here may have the id `own` in its own pid namespace.
    static func isProcess(_ pid: pid_t, knownToItselfAs own: pid_t) -> Bool {
        // The kernel says 0 for a process that has no id here.
        pid == own || pid == 0 || !showsOwnNamespace || ids(of: "\(pid)")?.last == own
    }

    /// Whether `/proc` shows this process's pid namespace, not another where the same ids are other processes'.
    private static var showsOwnNamespace: Bool { ids(of: "self").map { $0.count <= 1 } ?? false }

    /// Whether `/proc` is known to show another pid namespace, where the same ids are other processes'.
    fileprivate static var showsOtherNamespace: Bool { ids(of: "self").map { $0.count > 1 } ?? false }

    /// The ids of a process, from the pid namespace that `/proc` shows to its own; nil when `/proc` does not show it.
    private static func ids(of process: String) -> [pid_t]? {
        guard let lines = Descriptor.text(of: "/proc/\(process)/status")?.split(separator: "\n") else { return nil }
        return lines.first { $0.hasPrefix("NSpid:") }?.split(separator: "\t").compactMap { pid_t($0) } ?? []
    }
}

/// A process of this pid namespace, told from a later one with the same id.
struct KnownProcess: Sendable {
    let pid: pid_t
    /// Nil when the system does not say, or there was no descriptor to read it with.
    private let startTime: UInt64?

    init(_ pid: pid_t) { (self.pid, startTime) = (pid, pid > 0 ? ProcessStatus.startTime(of: pid) : nil) }

    enum State { case running, ended, unknown }

    var state: State {
        if ProcessStatus.isEnding(pid) { return .ended }
        if pid <= 0 || ProcessStatus.showsOtherNamespace { return .unknown }
        guard let startTime, let present = ProcessStatus.startTime(of: pid) else { return .running }
        return present == startTime ? .running : .ended
    }
}
