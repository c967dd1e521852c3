import Glibc

/// Process ids among containers: a process has one in each pid namespace that it is in, and none outside of them.
enum PIDNamespace {
    /// Whether the process that the kernel calls `pid` here may be the one that calls itself `own`.
    static func isProcess(_ pid: pid_t, knownToItselfAs own: pid_t) -> Bool {
        // Who is in none of our namespaces has no id here: the kernel says 0.
        pid == own || pid == 0 || innermostID(of: pid) == own
    }

    /// What a process calls itself; nil when the system does not say.
    private static func innermostID(of pid: pid_t) -> pid_t? {
        let descriptor = open("/proc/\(pid)/status", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        let bytes = [UInt8](unsafeUninitializedCapacity: 4096) { buffer, count in
            count = max(read(descriptor, buffer.baseAddress, buffer.count), 0)
        }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        let ids = lines.first { $0.hasPrefix("NSpid:") }?.split(separator: "\t").dropFirst()
        return ids?.last.flatMap { pid_t($0) }
    }
}
