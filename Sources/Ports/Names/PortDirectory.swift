import CRunLoopShims
import Glibc
import RunLoops
import Synchronization

/// A registry directory: where the processes of one user find each other's ports.
///
///     n.NAME            a name's entry
///     INCARNATION/c     a process's control socket
///     INCARNATION/N     the socket of its port N
///
/// Whoever changes a name, or sweeps up what a dead process has left, holds a lock on the directory itself while doing
/// so; no lock files are needed, and none stay.
final class PortDirectory: Sendable {
    let path: String
    let watcher: NameWatcher

    private struct Own {
        var isMade = false
        var listener: ControlListener?
        var sockets: Set<String> = []
        /// The entries of names that ports of ours have, by file.
        var names: [String: NameEntry] = [:]
        /// Tells when somebody removes one of them; there as long as there are any.
        var guardian: NameWatcher.Listener?
    }

    private let own = Mutex(Own())
    /// Held while the guardian comes or goes.
    private let guarding = Mutex(())

    /// The default registry directory's path.
    static var defaultPath: String {
        if let path = environment("PORTS_DIRECTORY") { return path }
        if let path = environment("XDG_RUNTIME_DIR") { return path + "/ports" }
        return "/tmp/ports-\(geteuid())"
    }

    private static func environment(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// One directory has one spelling: a second object for it would bind the same sockets again.
    static func withoutTrailingSlashes(_ path: String) -> String {
        var path = path
        while path.utf8.count > 1, path.hasSuffix("/") { path.removeLast() }
        return path
    }

    init(_ path: String) throws(PortError) {
        let path = Self.withoutTrailingSlashes(path)
        self.path = path
        watcher = NameWatcher(path)
        guard path.hasPrefix("/") else { throw .untrustedDirectory(path, reason: "its path has to begin with /") }
        if mkdir(path, 0o700) != 0, errno != EEXIST { throw .directory(path, call: "mkdir", errno: errno) }
        try check()
    }

    /// Only a directory of ours that nobody else can touch will do: whoever can write to it can pose as anybody.
    private func check() throws(PortError) {
        var status = stat()
        guard lstat(path, &status) == 0 else { throw .directory(path, call: "lstat", errno: errno) }
        switch status.st_mode & S_IFMT {
        case S_IFDIR: break
        case S_IFLNK: throw .untrustedDirectory(path, reason: "it is a symbolic link; name the directory itself")
        default: throw .untrustedDirectory(path, reason: "it is not a directory; name one")
        }
        guard status.st_uid == geteuid() else {
            throw .untrustedDirectory(
                path, reason: "it belongs to user \(status.st_uid), not to \(geteuid()); name another")
        }
        guard status.st_mode & 0o077 == 0 else {
            throw .untrustedDirectory(path, reason: "others may use it; chmod 700 it, or name another")
        }
    }

    // MARK: The lock

    /// Runs a change of the directory while no other process makes one.
    func withLock<Result>(
        before deadline: MonotonicInstant = .now + .seconds(10), _ body: () throws(PortError) -> Result
    ) throws(PortError) -> Result {
        // The kernel lets two descriptors of one process lock each other out, so threads are kept apart as well.
        // A forked child that kept the descriptor would keep the lock.
        let directory = crl_unforked_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
        guard directory >= 0 else { throw .directory(path, call: "open", errno: errno) }
        defer { crl_unforked_close(directory) }
        var pause: UInt32 = 50
        while flock(directory, LOCK_EX | LOCK_NB) != 0 {
            guard errno == EWOULDBLOCK || errno == EINTR, !deadline.hasPassed else {
                throw .directory(path, call: "flock", errno: errno)
            }
            // flock itself knows no deadline, and its holders are done in microseconds.
            usleep(pause)
            pause = min(pause * 2, 5_000)
        }
        defer { flock(directory, LOCK_UN) }
        return try body()
    }

    // MARK: Our own process's files

    private func ownPath(_ file: String) -> String { "\(path)/\(PortProcess.current.incarnation)/\(file)" }

    /// Makes this process reachable: its folder and its control socket.
    func open() throws(PortError) {
        if own.withLock({ $0.isMade }) { return }
        try check()
        try withLock { () throws(PortError) in
            sweep()
            try own.withLock { (own) throws(PortError) in
                guard !own.isMade else { return }
                let folder = "\(path)/\(PortProcess.current.incarnation)"
                guard mkdir(folder, 0o700) == 0 || errno == EEXIST else {
                    throw .directory(folder, call: "mkdir", errno: errno)
                }
                do throws(PortError) {
                    own.listener = try makeListener()
                } catch {
                    rmdir(folder)
                    throw error
                }
                own.sockets.insert("c")
                own.isMade = true
            }
        }
    }

    private func makeListener() throws(PortError) -> ControlListener {
        let descriptor = try LocalSocket.listenForControl(at: ownPath("c"))
        do throws(PortError) {
            return try ControlListener(descriptor)
        } catch {
            crl_unforked_close(descriptor)
            unlink(ownPath("c"))
            throw error
        }
    }

    /// A listening socket for a port of ours.
    func makeSocket(for port: PortID) throws(PortError) -> (descriptor: Int32, path: String) {
        try open()
        let file = String(port.number)
        let path = ownPath(file)
        let descriptor = try LocalSocket.listen(at: path, kind: .stream)
        own.withLock { _ = $0.sockets.insert(file) }
        return (descriptor, path)
    }

    func removeSocket(of port: PortID) {
        let file = String(port.number)
        if own.withLock({ $0.sockets.remove(file) }) != nil { unlink(ownPath(file)) }
    }

    /// The process ends.
    func removeOwnFiles(before deadline: MonotonicInstant) {
        let (names, sockets, isMade) = own.withLock { own in
            // They are not to be restored any more.
            defer { own.names = [:] }
            return (own.names.keys, own.sockets, own.isMade)
        }
        guard isMade else { return }
        for socket in sockets { unlink(ownPath(socket)) }
        rmdir("\(path)/\(PortProcess.current.incarnation)")
        try? withLock(before: deadline) {
            for name in names { removeIfOwn(name) }
            // Children of ours that were killed may have no other to clear up after them.
            sweep()
        }
    }

    // MARK: Other processes' files

    /// Whether the process is there: whether somebody listens at its control socket. The kernel closes that with the
    /// process, however it ends.
    func isAlive(_ incarnation: Incarnation) -> Bool {
        incarnation == PortProcess.current.incarnation || LocalSocket.hasListener("\(path)/\(incarnation)/c")
    }

    /// Whether a name's owner may still be there. Of our own process's ports we know: one that found the directory
    /// locked when it went has left its name behind.
    private func isAlive(_ port: PortID) -> Bool {
        port.incarnation == PortProcess.current.incarnation
            ? PortProcess.current.port(port.number)?.isValid == true : isAlive(port.incarnation)
    }

    /// Removes what dead processes have left, and nothing else: the variable may name a directory that has other files
    /// in it, and some may look like ours. The lock must be held.
    @discardableResult
    func sweep() -> (processes: Int, names: [String]) {
        var swept = (processes: 0, names: [String]())
        for file in Self.files(in: path) {
            if let incarnation = Incarnation(file) {
                if !isAlive(incarnation), removeFolder("\(path)/\(file)") { swept.processes += 1 }
            } else if file.hasPrefix(NameEntry.prefix) {
                if let entry = read(file), !isAlive(entry.right.id.incarnation), unlink("\(path)/\(file)") == 0 {
                    swept.names.append(entry.name)
                }
            } else if file.hasPrefix(Self.temporaryPrefix),
                Incarnation(file.dropFirst(Self.temporaryPrefix.count)) != nil
            {
                // Only a holder of the lock has one, and that is us.
                unlink("\(path)/\(file)")
            }
        }
        return swept
    }

    /// Removes a folder of sockets; one that holds anything else stays.
    private func removeFolder(_ folder: String) -> Bool {
        for file in Self.files(in: folder) where LocalSocket.isSocket("\(folder)/\(file)") {
            unlink("\(folder)/\(file)")
        }
        return rmdir(folder) == 0
    }

    /// The names of what is in a folder.
    static func files(in folder: String) -> [String] {
        // A link planted here must not lead out of the directory.
        let descriptor = Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        guard let stream = fdopendir(descriptor) else {
            Glibc.close(descriptor)
            return []
        }
        defer { closedir(stream) }
        var files: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != "." && name != ".." { files.append(name) }
        }
        return files
    }

    // MARK: Names

    /// Listens for the removal of our entries, as long as there are any.
    private func guardNames() {
        let isNew = guarding.withLock { _ in
            let (hasNames, guardian) = own.withLock { own in (!own.names.isEmpty, own.guardian) }
            guard hasNames == (guardian == nil) else { return false }
            if let guardian {
                watcher.remove(guardian)
                own.withLock { $0.guardian = nil }
                return false
            }
            let made = NameWatcher.Listener { [weak self] in self?.restore(after: $0) }
            do throws(PortError) {
                try watcher.add(made)
            } catch {
                // The name is good for all that.
                log.warning("entries that somebody removes from \(path) will not be restored: \(error)")
                return false
            }
            own.withLock { $0.guardian = made }
            return true
        }
        // What happened before was not told.
        if isNew { restore(after: .any) }
    }

    /// Somebody may have removed an entry of ours, which no library does while the owner lives.
    private func restore(after change: NameWatcher.Change) {
        // In a full directory much happens that is not to our entries.
        let concerned: [String: NameEntry] = own.withLock { own in
            switch change {
            case .portInvalidated: [:]
            case .entry(let file): own.names[file].map { [file: $0] } ?? [:]
            case .any, .directoryRemoved: own.names
            }
        }
        let missing = concerned.filter { file, entry in read(file)?.right.id != entry.right.id }
        guard !missing.isEmpty, !crl_is_forked() else { return }
        do throws(PortError) {
            // The thread has the control connections to serve.
            try withLock(before: .now + .seconds(1)) { () throws(PortError) in
                for (file, entry) in missing { try restore(entry, in: file) }
            }
        } catch {
            log.error(
                "entries that were removed from \(path), \(missing.count) in all, could not be restored: \(error)")
        }
    }

    /// The lock must be held.
    private func restore(_ entry: NameEntry, in file: String) throws(PortError) {
        // It may have been given up in the meantime.
        guard own.withLock({ $0.names[file] }) == entry, isAlive(entry.right.id) else { return }
        let present = try readChecked(file)
        if present?.right.id == entry.right.id { return }
        if let present, isAlive(present.right.id) {
            own.withLock { $0.names[file] = nil }
            log.error("somebody has removed the entry of “\(entry.name)”, and process \(present.pid) has the name now")
        } else if LocalSocket.isSocket(ownPath("c")) {
            try write(entry, to: file)
            log.warning("somebody has removed the entry of “\(entry.name)” from \(path); it is restored")
        } else {
            log.error("somebody has removed this process's files from \(path): nobody can find “\(entry.name)”")
        }
    }

    private static let temporaryPrefix = "t."
    private static let largestEntry = 8192

    /// Gives the name to a port of ours, unless somebody alive has it.
    func register(_ name: String, _ right: WireRight) throws(PortError) {
        let file = try NameEntry.fileName(for: name)
        try withLock { () throws(PortError) in
            if let entry = try readChecked(file) {
                if entry.right.id == right.id { return }
                if isAlive(entry.right.id) { throw .nameInUse(name, pid: entry.pid) }
            }
            let entry = NameEntry(name: name, right: right)
            try write(entry, to: file)
            own.withLock { $0.names[file] = entry }
        }
        guardNames()
    }

    /// Takes the name back from a port of ours.
    func unregister(_ name: String, from port: PortID) throws(PortError) {
        let file = try NameEntry.fileName(for: name)
        try withLock { () throws(PortError) in
            own.withLock { own in
                if own.names[file]?.right.id == port { own.names[file] = nil }
            }
            guard let entry = read(file), entry.right.id == port else { return }
            unlink("\(path)/\(file)")
        }
        guardNames()
    }

    /// What is registered under a name, by whomever.
    func entry(_ name: String) throws(PortError) -> NameEntry? {
        let file = try NameEntry.fileName(for: name)
        let found = try readChecked(file)
        return found?.name == name ? found : nil
    }

    /// A dead owner's entry is in nobody's way any more.
    func removeDead(_ entry: NameEntry) throws(PortError) {
        let file = try NameEntry.fileName(for: entry.name)
        try withLock { () throws(PortError) in
            if let now = read(file), now.right.id == entry.right.id, !isAlive(now.right.id.incarnation) {
                unlink("\(path)/\(file)")
            }
        }
    }

    /// Every name there is, those of dead owners too.
    func entries() -> [NameEntry] {
        Self.files(in: path).filter { $0.hasPrefix(NameEntry.prefix) }.compactMap(read)
    }

    private func removeIfOwn(_ file: String) {
        if read(file)?.right.id.incarnation == PortProcess.current.incarnation { unlink("\(path)/\(file)") }
    }

    private func read(_ file: String) -> NameEntry? { try? readChecked(file) }

    private func readChecked(_ file: String) throws(PortError) -> NameEntry? {
        let path = "\(path)/\(file)"
        // A link or a FIFO planted here must neither be followed nor block.
        let descriptor = Glibc.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw .directory(path, call: "open", errno: errno)
        }
        defer { Glibc.close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_uid == geteuid() else {
            log.warning(
                once: path, "\(path) belongs to user \(status.st_uid); it is not read")
            throw .untrustedDirectory(path, reason: "it belongs to user \(status.st_uid); remove it")
        }
        guard status.st_mode & S_IFMT == S_IFREG, status.st_size <= Self.largestEntry
        else { throw .untrustedDirectory(path, reason: "it is not an entry that this user's programs have written") }
        let bytes = [UInt8](unsafeUninitializedCapacity: Self.largestEntry) { buffer, count in
            count = max(Glibc.read(descriptor, buffer.baseAddress, buffer.count), 0)
        }
        var entry = try NameEntry(bytes, path: path)
        entry.since = status.st_mtim.tv_sec
        return entry
    }

    private func write(_ entry: NameEntry, to file: String) throws(PortError) {
        let temporary = "\(path)/\(Self.temporaryPrefix)\(PortProcess.current.incarnation)"
        unlink(temporary)
        let descriptor = Glibc.open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .directory(temporary, call: "open", errno: errno) }
        let bytes = entry.bytes
        let written = Glibc.write(descriptor, bytes, bytes.count)
        let error = written < 0 ? errno : ENOSPC
        Glibc.close(descriptor)
        guard written == bytes.count else {
            unlink(temporary)
            throw .directory(temporary, call: "write", errno: error)
        }
        guard rename(temporary, "\(path)/\(file)") == 0 else {
            let error = errno
            unlink(temporary)
            throw .directory("\(path)/\(file)", call: "rename", errno: error)
        }
    }
}
