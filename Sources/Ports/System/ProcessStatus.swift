import Glibc

/// What the kernel says about a process.
enum ProcessStatus {
    /// When it began, in clock ticks after the machine did: the 22nd field of its stat file.
    static func startTime(of pid: pid_t) -> UInt64? {
        fields("/proc/\(pid)/stat").flatMap { $0.count > 19 ? UInt64($0[19]) : nil }
    }

    /// Whether it is gone, or about to be: nothing of its program runs any more, but the kernel may not have closed
    /// all of its sockets yet. (It does so one by one, the ones that were opened last often first.)
    static func isEnding(_ pid: pid_t) -> Bool {
        guard pid > 0 else { return false }
        guard let leader = fields("/proc/\(pid)/stat") else { return isGone(pid) }
        guard isEnding(leader) else { return false }
        // A program may go on without the thread that it began with.
        let tasks = "/proc/\(pid)/task"
        return Folder.files(in: tasks).allSatisfy { task in
            fields("\(tasks)/\(task)/stat").map(isEnding) ?? true
        }
    }

    private static func isGone(_ pid: pid_t) -> Bool { kill(pid, 0) != 0 && errno == ESRCH }

    /// The ninth field has the kernel's flags; PF_EXITING is one of them.
    private static func isEnding(_ fields: [Substring]) -> Bool {
        fields.count > 6 && UInt64(fields[6]).map { $0 & 0x4 != 0 } ?? false
    }

    /// The fields of a stat file from the third on; the second, a name, may hold blanks and parentheses.
    private static func fields(_ path: String) -> [Substring]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        let bytes = [UInt8](unsafeUninitializedCapacity: 4096) { buffer, count in
            count = max(read(descriptor, buffer.baseAddress, buffer.count), 0)
        }
        guard let end = bytes.lastIndex(of: UInt8(ascii: ")")) else { return nil }
        return String(decoding: bytes[(end + 1)...], as: UTF8.self).split(separator: " ")
    }
}
