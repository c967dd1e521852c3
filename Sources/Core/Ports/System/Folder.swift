import CRunLoopShims
import Glibc
import RunLoops

/// An open directory. All operations use its descriptor, because its path may lead to another directory later.
package final class Folder: Sendable {
    let descriptor: Int32
    /// Identifies the directory, whichever path leads to it.
    let identity: FileIdentity
    private let root = Folder.identity(at: "/")

    /// Opens a directory without following a symbolic link. Returns nil, with an `errno`, on failure.
    init?(_ path: String) {
        descriptor = Self.open(path)
        guard descriptor >= 0, let identity = FileIdentity(of: descriptor) else { return nil }
        self.identity = identity
    }

    deinit { close(descriptor) }

    func isAt(_ path: String) -> Bool { Self.identity(at: path) == identity }

    /// Whether the path is hidden from this process: its root has changed since the directory was opened, or a file
    /// system was mounted over the path. Other processes may still reach the directory by the path.
    func isHidden(at path: String) -> Bool {
        if Self.identity(at: "/") != root { return true }
        var mount = crl_mount(AT_FDCWD, path)
        // Nothing is at the path now. A new directory would be on the mount of the parent folder.
        if mount == 0 { mount = crl_mount(AT_FDCWD, String(path[...(path.lastIndex(of: "/") ?? path.startIndex)])) }
        return mount != 0 && mount != crl_mount(descriptor, "")
    }

    private static func identity(at path: String) -> FileIdentity? {
        status { lstat(path, $0) }.map { FileIdentity($0) }
    }

    /// A path that leads to a file through the descriptor. It needs `/proc`.
    func path(_ file: String) -> String { "/proc/self/fd/\(descriptor)/\(file)" }

    /// Whether the folder was removed. Nobody can make a file in a removed folder.
    var isRemoved: Bool { status.st_nlink == 0 }
    var status: stat { Self.status { fstat(descriptor, $0) } ?? stat() }
    private func status(of file: String) -> stat? { Self.status { fstatat(descriptor, file, $0, AT_SYMLINK_NOFOLLOW) } }

    private static func status(_ fill: (UnsafeMutablePointer<stat>) -> Int32) -> stat? {
        var status = stat()
        return fill(&status) == 0 ? status : nil
    }

    private static func open(_ path: String) -> Int32 {
        Glibc.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    }

    func open(_ file: String, _ flags: Int32, _ mode: mode_t = 0) -> Int32 {
        openat(descriptor, file, flags | O_NOFOLLOW | O_CLOEXEC, mode)
    }

    func hasFile(_ file: String) -> Bool { status(of: file) != nil }
    func isSocket(_ file: String) -> Bool { status(of: file).map { $0.st_mode & S_IFMT == S_IFSOCK } ?? false }

    func isEmptyFile(_ file: String) -> Bool {
        status(of: file).map { $0.st_mode & S_IFMT == S_IFREG && $0.st_size == 0 } ?? false
    }

    /// Makes a folder with mode 0700.
    /// - Returns: True also when a file of that name exists.
    func makeFolder(_ file: String) -> Bool { Self.make(file, in: descriptor) }

    static func make(_ path: String, in folder: Int32 = AT_FDCWD) -> Bool {
        guard mkdirat(folder, path, 0o700) == 0 else { return errno == EEXIST }
        // A strict umask may have taken rights from the folder's own user.
        fchmodat(folder, path, 0o700, AT_SYMLINK_NOFOLLOW)
        return true
    }

    func remove(_ file: String) -> Bool { unlinkat(descriptor, file, 0) == 0 }
    func removeFolder(_ file: String) -> Bool { unlinkat(descriptor, file, AT_REMOVEDIR) == 0 }
    func rename(_ file: String, to other: String) -> Bool { renameat(descriptor, file, descriptor, other) == 0 }

    /// The names in a folder of this folder. Returns nil, with an `errno`, when they cannot be read.
    func files(in file: String) -> [String]? { Self.files(open(file, O_RDONLY | O_DIRECTORY)) }
    static func files(in path: String) -> [String]? { files(open(path)) }

    /// - Parameter descriptor: The folder's descriptor, which the call closes.
    package static func files(_ descriptor: Int32) -> [String]? {
        guard descriptor >= 0 else { return nil }
        guard let stream = fdopendir(descriptor) else {
            let error = errno
            close(descriptor)
            errno = error
            return nil
        }
        var files: [String] = []
        errno = 0
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != "." && name != ".." { files.append(name) }
            errno = 0
        }
        let error = errno
        closedir(stream)
        errno = error
        return error == 0 ? files : nil
    }
}
