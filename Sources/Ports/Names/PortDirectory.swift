import CRunLoopShims
import Glibc
import RunLoops
import Synchronization

/// A registry directory: where the processes of one user find each other's ports.
///
///     names/NAME/INCARNATION.N    the entry of a name that port N of a process has
///     INCARNATION/c               a process's control socket
///     INCARNATION/N               the socket of its port N
///     INCARNATION/N.NAME          says that its port N may have the name
///     INCARNATION/new             a name's folder, until the process claims the name
///
/// No process ever waits for another to change the directory: there are no locks. A name's folder is moved to its place
/// complete, which the kernel does only where there is nothing or an empty folder: so of those who claim a free name one
/// gets it. An entry's file name is its port's for ever: so whoever removes that of a dead port never hits another's,
/// however late.
final class PortDirectory: Sendable {
    let path: String
    let folder: Folder
    let watcher: NameWatcher

    struct Own {
        var isMade = false
        var listener: ControlListener?
        var sockets: Set<String> = []
        /// The entries of names that ports of ours have, by file.
        var names: [String: NameEntry] = [:]
        /// Tells when somebody removes one of them; there as long as there are any.
        var guardian: NameWatcher.Listener?
    }

    let own = Mutex(Own())
    /// Held while a name of this process's changes.
    let changing = Mutex(())
    /// Held while the guardian comes or goes.
    let guarding = Mutex(())

    static let names = "names"

    /// The default registry directory's path.
    static var defaultPath: String {
        if let path = environment("PORTS_DIRECTORY") { return path }
        if let path = environment("XDG_RUNTIME_DIR") { return path + "/ports" }
        return "/tmp/ports-\(geteuid())"
    }

    private static func environment(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// What may be appended would make a link of a directory look like the directory.
    static func withoutTrailingSlashes(_ path: String) -> String {
        var path = path
        while path.utf8.count > 1, path.hasSuffix("/") { path.removeLast() }
        return path
    }

    /// Longer ones leave no room for the paths of sockets: an incarnation, 13 digits, and two slashes.
    static let longestPath = LocalSocket.longestPath - 47

    init(_ path: String) throws(PortError) {
        let path = Self.withoutTrailingSlashes(path)
        self.path = path
        guard path.hasPrefix("/") else { throw .untrustedDirectory(path, reason: "its path has to begin with /") }
        guard path.utf8.count <= Self.longestPath else { throw .pathTooLong(path, limit: Self.longestPath) }
        if mkdir(path, 0o700) != 0, errno != EEXIST { throw .directory(path, call: "mkdir", errno: errno) }
        guard let folder = Folder(path) else { throw Self.openError(path, errno) }
        self.folder = folder
        watcher = NameWatcher("\(path)/\(Self.names)")
        try check()
        // Those who clear temporary directories up leave a locked one alone; nobody waits for this lock.
        flock(folder.descriptor, LOCK_SH | LOCK_NB)
        // Whoever may only read looks for names all the same.
        _ = folder.makeFolder(Self.names)
    }

    private static func openError(_ path: String, _ error: Int32) -> PortError {
        guard error == ENOTDIR || error == ELOOP else { return .directory(path, call: "open", errno: error) }
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
            ? .untrustedDirectory(path, reason: "it is a symbolic link; name the directory itself")
            : .untrustedDirectory(path, reason: "it is not a directory; name one")
    }

    /// Only a directory of ours that nobody else can touch will do: whoever can write to it can pose as anybody.
    func check() throws(PortError) {
        let status = folder.status
        guard status.st_uid == geteuid() else {
            throw .untrustedDirectory(
                path, reason: "it belongs to user \(status.st_uid), not to \(geteuid()); name another")
        }
        guard status.st_mode & 0o077 == 0 else {
            throw .untrustedDirectory(path, reason: "others may use it; chmod 700 it, or name another")
        }
    }

    // MARK: Our own process's files

    static func ownFile(_ file: String) -> String { "\(PortProcess.current.incarnation)/\(file)" }

    func path(_ file: String) -> String { "\(path)/\(file)" }

    /// Makes this process reachable: its folder and its control socket.
    func open() throws(PortError) {
        if own.withLock({ $0.isMade }) { return }
        // What is left is the next process's to sweep.
        sweep(before: .now + .milliseconds(100))
        try own.withLock { (own) throws(PortError) in
            guard !own.isMade else { return }
            own.listener = try makeListener()
            own.sockets.insert("c")
            own.isMade = true
        }
    }

    private func makeListener() throws(PortError) -> ControlListener {
        let descriptor = try listenForPeers()
        do throws(PortError) {
            return try ControlListener(descriptor)
        } catch {
            crl_unforked_close(descriptor)
            _ = folder.remove(Self.ownFile("c"))
            _ = folder.removeFolder("\(PortProcess.current.incarnation)")
            throw error
        }
    }

    /// The control socket gets its name when it listens: what has the name and does not listen is a dead process's. Until
    /// then a sweep may take this process for a dead one, too.
    private func listenForPeers() throws(PortError) -> Int32 {
        let (folderName, born, control) = ("\(PortProcess.current.incarnation)", Self.ownFile("b"), Self.ownFile("c"))
        var attempts = 0
        while true {
            attempts += 1
            guard folder.makeFolder(folderName) else {
                throw .directory(path(folderName), call: "mkdir", errno: errno)
            }
            _ = folder.remove(born)
            do throws(PortError) {
                let descriptor = try LocalSocket.listenForControl(at: path(born))
                if folder.rename(born, to: control) { return descriptor }
                let error = errno
                crl_unforked_close(descriptor)
                if error == ENOENT { removeStray(born) }
                throw .directory(path(control), call: "rename", errno: error)
            } catch .directory(_, _, ENOENT) where attempts < 100 {
                continue
            } catch {
                _ = folder.remove(born)
                _ = folder.removeFolder(folderName)
                throw error
            }
        }
    }

    /// Sockets have to be bound by path, and that may have led elsewhere by then.
    private func removeStray(_ file: String) { if !folder.isAt(path) { unlink(path(file)) } }

    /// A listening socket for a port of ours.
    func makeSocket(for port: PortID) throws(PortError) -> (descriptor: Int32, path: String) {
        try open()
        let file = Self.ownFile("\(port.number)")
        let descriptor = try LocalSocket.listen(at: path(file), kind: .stream)
        guard folder.isSocket(file) else {
            close(descriptor)
            removeStray(file)
            throw .directory(path(file), call: "bind", errno: ENOENT)
        }
        own.withLock { _ = $0.sockets.insert("\(port.number)") }
        return (descriptor, path(file))
    }

    func removeSocket(of port: PortID) {
        let file = String(port.number)
        if own.withLock({ $0.sockets.remove(file) }) != nil { _ = folder.remove(Self.ownFile(file)) }
    }

    /// The process ends.
    func removeOwnFiles(before deadline: MonotonicInstant) {
        let (names, sockets, isMade) = own.withLock { own in
            // They are not to be restored any more.
            defer { own.names = [:] }
            return (own.names, own.sockets, own.isMade)
        }
        guard isMade else { return }
        for (file, entry) in names { try? giveUp(entry.right.id, file) }
        for socket in sockets { _ = folder.remove(Self.ownFile(socket)) }
        _ = folder.removeFolder("\(PortProcess.current.incarnation)")
        // Children of ours that were killed may have no other to clear up after them.
        sweep(before: deadline)
    }

    // MARK: Other processes

    /// Whether the process is there: whether somebody listens at its control socket. The kernel closes that with the
    /// process, however it ends.
    func isAlive(_ incarnation: Incarnation) -> Bool {
        incarnation == PortProcess.current.incarnation || LocalSocket.hasListener(path("\(incarnation)/c"))
    }
}
