import Glibc
import RunLoops

// The programs of processes, as `/proc` shows them.

extension ProcessIdentity {
    static let own = ProcessIdentity(pid: getpid())

    /// Reads the program's name now, because the pid may belong to another process later.
    init(pid: pid_t) {
        self.pid = pid
        program = pid > 0 ? Self.program(of: pid) : nil
    }

    package init(pid: pid_t, path: String?) { self.init(pid: pid, program: path.flatMap(Self.name)) }

    private static func program(of pid: pid_t) -> String? {
        if let path = ProcessStatus.program(of: pid) { return name(of: path) }
        // A process that must not be debugged hides the path of its program, but not the program's name.
        return Descriptor.text(of: "/proc/\(pid)/comm")?.split(separator: "\n").first.map(String.init)
    }

    private static func name(of path: String) -> String? {
        let mark = " (deleted)"
        let name = path.split(separator: "/").last
        return name.map { String($0.hasSuffix(mark) ? $0.dropLast(mark.count) : $0) }
    }
}
