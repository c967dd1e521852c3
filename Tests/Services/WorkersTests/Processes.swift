import Glibc
import TestSupport

/// Whether a process has ended; a zombie has.
func isGone(_ pid: pid_t) -> Bool {
    let status = String(decoding: bytes(ofFile: "/proc/\(pid)/stat"), as: UTF8.self)
    return status.isEmpty || status.split(separator: ")").last?.split(separator: " ").first == "Z"
}

/// The children of a process whose command line has a text.
func children(of parent: pid_t, _ text: String) -> [pid_t] {
    // Each thread has a list.
    let threads = entries(of: "/proc/\(parent)/task") ?? []
    let children = threads.flatMap { thread in
        String(decoding: bytes(ofFile: "/proc/\(parent)/task/\(thread)/children"), as: UTF8.self).split(separator: " ")
    }
    return children.compactMap { pid_t($0) }.filter { commandLine(of: $0).contains(text) }
}

/// The command line of a process, as `ps` shows it.
func commandLine(of pid: pid_t) -> String {
    let words = bytes(ofFile: "/proc/\(pid)/cmdline").split(separator: 0)
    return words.map { String(decoding: $0, as: UTF8.self) }.joined(separator: " ")
}
