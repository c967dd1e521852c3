import CRunLoopShims
import Dispatch
import Glibc
import Ports
import RunLoopLocks
import RunLoops

/// The temporary folders of the workers of one run of a pool. They are in one folder, which is locked as long as this
/// process lives: the kernel unlocks it at the end of the process, and then it may be swept.
final class WorkerFolders: Sendable {
    private static let prefix = "ports-workers-"

    private let path: String
    private let lock: Int32
    private let lastNumber = Lock(0)
    /// The removal of a large tree takes time.
    private let queue = DispatchQueue(label: "temporary folders of workers")

    /// Makes the folder of the run, and sweeps those of dead processes.
    init(inside parent: String) throws(FolderError) {
        (path, lock) = try Self.make(inside: parent)
        queue.async { Self.sweep(parent) }
    }

    deinit { crl_unforked_close(lock) }

    private static func make(inside parent: String) throws(FolderError) -> (path: String, lock: Int32) {
        var error = FolderError("mkdir", parent)
        for _ in 0..<10 {
            let path = "\(parent)/\(prefix)\(String(UInt64.random(in: 0...UInt64.max), radix: 36))"
            guard makeFolder(path) else { throw FolderError("mkdir", path) }
            if let lock = locked(path, LOCK_SH) { return (path, lock) }
            // A sweep of another process may have been faster than the lock.
            error = FolderError("flock", path)
            rmdir(path)
        }
        throw error
    }

    private static func makeFolder(_ path: String) -> Bool {
        // A strict umask may have taken rights away.
        mkdir(path, 0o700) == 0 && chmod(path, 0o700) == 0
    }

    /// Opens a folder of this user's, and locks it.
    /// - Returns: Nil when somebody else has locked or removed it.
    private static func locked(_ path: String, _ kind: Int32) -> Int32? {
        let folder = crl_unforked_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
        guard folder >= 0 else { return nil }
        var status = stat()
        let isOwn = fstat(folder, &status) == 0 && status.st_uid == geteuid()
        // The folder may have been removed before the lock.
        if isOwn, flock(folder, kind | LOCK_NB) == 0, FileIdentity(at: path) == FileIdentity(status) { return folder }
        crl_unforked_close(folder)
        return nil
    }

    /// Removes the folders whose processes have ended.
    private static func sweep(_ parent: String) {
        for name in FolderTree.names(in: parent) where name.hasPrefix(prefix) {
            let path = "\(parent)/\(name)"
            guard let folder = locked(path, LOCK_EX) else { continue }
            remove(path)
            crl_unforked_close(folder)
        }
    }

    private static func remove(_ path: String) {
        if !FolderTree.remove(path) {
            log.warning("the temporary folder \(path) of a worker cannot be removed with all that is in it")
        }
    }

    /// Makes the folder of a worker.
    func make() throws(FolderError) -> String {
        let number = lastNumber.withLock { number in
            number += 1
            return number
        }
        let folder = "\(path)/\(number)"
        guard Self.makeFolder(folder) else { throw FolderError("mkdir", folder) }
        return folder
    }

    /// Removes a folder whose worker has ended. Does not block.
    func remove(_ folder: String) { queue.async { Self.remove(folder) } }

    /// Removes everything, after what is being removed.
    func end() async {
        await withCheckedContinuation { continuation in
            queue.async { [path] in
                Self.remove(path)
                continuation.resume()
            }
        }
    }
}

extension FileIdentity {
    /// The file at a path, without following a link.
    fileprivate init?(at path: String) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return nil }
        self.init(status)
    }
}

/// A call for a temporary folder that has failed.
struct FolderError: Error, CustomStringConvertible {
    let description: String

    /// The call that has just failed.
    init(_ call: String, _ path: String) { description = "\(call) \(path): \(String(cString: strerror(errno)))" }
}
