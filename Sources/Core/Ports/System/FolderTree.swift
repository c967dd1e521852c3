import Glibc
import RunLoops

/// The removal of a folder with all that is in it.
///
/// The tree may be deeper than a path is long, and than a process has descriptors. So the folders of a folder are moved
/// to the top before it is removed, and only two descriptors are open at a time. No symbolic link is followed.
package enum FolderTree {
    /// Blocks until the folder is gone.
    /// - Returns: False when something in it cannot be removed.
    package static func remove(_ path: String) -> Bool {
        guard let top = openUsable(path, in: AT_FDCWD) else { return errno == ENOENT }
        defer { close(top) }
        var (moved, attempts) = (0, 0)
        // Somebody may still write into it, or have it as its working directory.
        while attempts < 3 {
            let names = Folder.files(openat(top, ".", flags)) ?? []
            let count = names.count { remove($0, in: top, &moved) }
            if rmdir(path) == 0 || errno == ENOENT { return true }
            if count == 0 { attempts += 1 }
        }
        return false
    }

    /// The names in a folder; none when they cannot be read.
    package static func names(in path: String) -> [String] { Folder.files(in: path) ?? [] }

    private static let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC

    /// - Returns: Whether something has changed.
    private static func remove(_ name: String, in top: Int32, _ moved: inout Int) -> Bool {
        if unlinkat(top, name, 0) == 0 || unlinkat(top, name, AT_REMOVEDIR) == 0 { return true }
        guard let folder = openUsable(name, in: top) else { return false }
        defer { close(folder) }
        for inner in Folder.files(openat(folder, ".", flags)) ?? [] where unlinkat(folder, inner, 0) != 0 {
            // The kernel moves a folder only for somebody who may write to it.
            guard let usable = openUsable(inner, in: folder) else { continue }
            close(usable)
            moved += 1
            renameat(folder, inner, top, "moved.\(moved)")
        }
        return unlinkat(top, name, AT_REMOVEDIR) == 0
    }

    /// Opens a folder, and gives its user all rights.
    private static func openUsable(_ name: String, in parent: Int32) -> Int32? {
        if let status = status(of: name, in: parent), status.st_mode & S_IFMT == S_IFDIR,
            status.st_mode & 0o700 != 0o700
        {
            fchmodat(parent, name, 0o700, AT_SYMLINK_NOFOLLOW)
        }
        let folder = openat(parent, name, flags)
        return folder < 0 ? nil : folder
    }

    private static func status(of name: String, in parent: Int32) -> stat? {
        var status = stat()
        return fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 ? status : nil
    }
}
