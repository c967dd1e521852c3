import Glibc
import TestSupport

/// Whether a process has ended; a zombie has.
func isGone(_ pid: pid_t) -> Bool {
    let status = String(decoding: bytes(ofFile: "/proc/\(pid)/stat"), as: UTF8.self)
    return status.isEmpty || status.split(separator: ")").last?.split(separator: " ").first == "Z"
}
