import Glibc

/// The registry directory of a program that names none.
enum DefaultDirectory {
    /// The path, and the environment variable that it comes from. Whoever sets `PORTS_DIRECTORY` wants that directory: an
    /// empty path is an error at the first use.
    static var choice: (path: String, variable: String?) {
        if let path = value(of: "PORTS_DIRECTORY") { return (path, "PORTS_DIRECTORY") }
        if let folder = value(of: "XDG_RUNTIME_DIR"), !folder.isEmpty { return (folder + "/ports", "XDG_RUNTIME_DIR") }
        return ("/tmp/ports-\(geteuid())", nil)
    }

    private static func value(of variable: String) -> String? { getenv(variable).map { String(cString: $0) } }

    /// With a slash at its end, the path of a symbolic link looks like a directory's.
    static func withoutTrailingSlashes(_ path: String) -> String {
        var path = path
        while path.utf8.count > 1, path.hasSuffix("/") { path.removeLast() }
        return path
    }

    /// The path of a registry directory, or of a file in it, and the variable that it comes from.
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
            "; a login session makes the directory above: where there is none, set PORTS_DIRECTORY"
        case ENOENT where call == "mkdir": "; make the directory that it is to be in, or set PORTS_DIRECTORY"
        case EMFILE, ENFILE: "; close some or raise ulimit -n"
        case ENOTDIR: "; a part of the path is no directory: set PORTS_DIRECTORY to another"
        case ENOSPC: "; make room on the disk, or set PORTS_DIRECTORY to a directory on another"
        case EACCES, EPERM, EROFS: "; set PORTS_DIRECTORY to a directory that you may write to"
        default: ""
        }
    }
}
