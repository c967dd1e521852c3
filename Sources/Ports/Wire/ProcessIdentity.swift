/// A process as people know it.
struct ProcessIdentity: Hashable, Sendable, CustomStringConvertible {
    /// 0 when the process has no id in this process's pid namespace.
    let pid: Int32
    /// The name of the program's file.
    let program: String?

    /// The program and the pid.
    var description: String {
        switch (program, pid) {
        case (let program?, 0): program.printable
        case (let program?, _): "\(program.printable) (pid \(pid))"
        case (nil, 0): "a process without an id here"
        case (nil, _): "process \(pid)"
        }
    }
}
