import Glibc

/// Process ids among containers: a process has a different id in each of its pid namespaces, and none outside of them.
enum PIDNamespace {
    /// Whether the process that the kernel calls `pid` here may be the one that calls itself `own`.
    static func isProcess(_ pid: pid_t, knownToItselfAs own: pid_t) -> Bool {
        // The kernel says 0 for a process that has no id here.
        pid == own || pid == 0 || innermostID(of: pid) == own
    }

    /// The process's own id for itself; nil when the system does not say.
    private static func innermostID(of pid: pid_t) -> pid_t? {
        let lines = ProcessStatus.text("/proc/\(pid)/status")?.split(separator: "\n")
        let ids = lines?.first { $0.hasPrefix("NSpid:") }?.split(separator: "\t").dropFirst()
        return ids?.last.flatMap { pid_t($0) }
    }
}
