import Glibc

/// The registry directory of a program that names none.
enum DefaultDirectory {
    /// The path, and the environment variable that it comes from. An empty `PORTS_DIRECTORY` is not replaced by a
    /// default, and is an error at the first use.
    static var choice: (path: String, variable: String?) {
        if let path = value(of: "PORTS_DIRECTORY") { return (path, "PORTS_DIRECTORY") }
        if let folder = value(of: "XDG_RUNTIME_DIR"), !folder.isEmpty { return (folder + "/ports", "XDG_RUNTIME_DIR") }
        return ("/tmp/ports-\(geteuid())", nil)
    }

    private static func value(of variable: String) -> String? { getenv(variable).map { String(cString: $0) } }

    /// Removes trailing slashes, because the kernel follows a symbolic link whose path ends in a slash.
    static func withoutTrailingSlashes(_ path: String) -> String {
        var path = path
        while path.utf8.count > 1, path.hasSuffix("/") { path.removeLast() }
        return path
    }

    /// Describes the path of a registry directory, or of a file in it, with the variable that it comes from.
    static func text(_ path: String) -> String {
        let (directory, variable) = choice
        let isInside =
            path == withoutTrailingSlashes(directory) || !directory.isEmpty && path.hasPrefix(directory + "/")
        let name = path.isEmpty ? path.quoted : path
        return variable.map { isInside ? "\(name) (from \($0))" : name } ?? name
    }

    static func remedy(_ call: String, _ errno: Int32, _ path: String) -> String {
        switch errno {
        case ENOENT where call == "mkdir" && choice.variable == "XDG_RUNTIME_DIR" && path == choice.path:
            "; a login session makes the parent directory: set PORTS_DIRECTORY where there is no session"
        case ENOENT where call == "mkdir": "; make the parent directory, or set PORTS_DIRECTORY"
        case EMFILE, ENFILE: "; close some or raise ulimit -n"
        case ENOTDIR: "; a part of the path is no directory: set PORTS_DIRECTORY to another"
        case ENOSPC: "; make room on the disk, or set PORTS_DIRECTORY to a directory on another"
        case EACCES, EPERM, EROFS: "; set PORTS_DIRECTORY to a directory that you may write to"
        default: ""
        }
    }
}
