import CRunLoopShims
import Glibc
import RunLoopLocks
import RunLoops
import Synchronization

/// A registry directory: where the processes of one user find each other's ports.
///
///     names/NAME/INCARNATION.N    the entry of a name that port N of a process has
///     homes/INCARNATION.N         the home of the port N of a process, which has moved: INCARNATION.N of its new owner
///     moves/INCARNATION.N~INCARNATION.N   a port that moves, and the home that it perhaps gets
///     loans/INCARNATION.N~INCARNATION.N   a port that is lent, and the place at its lender that waits for it
///     INCARNATION/c               a process's control socket; b until it listens
///     INCARNATION/N               the socket of its port N; N~ while the port is being handed over
///     INCARNATION/N.NAME          says that its port N may have the name
///     INCARNATION/new             a name's folder, until the process claims the name
///
/// The directory has no locks: no process ever waits for another. To claim a name, a process moves a complete folder to
/// the name's place. The kernel does that only where there is nothing or an empty folder, so exactly one claimant gets a
/// free name. An entry's file name belongs to one port for ever, so the removal of a dead port's entry never hits
/// another's, however late it comes.
final class RegistryDirectory: Sendable {
    private let currentPath: Lock<String>
    let folder: Folder
    let watcher: RegistryWatcher
    let registry: Registry

    struct Own {
        var isEnded = false
        /// Nil until this runtime is reachable here.
        var listener: ControlListener?
        var sockets: Set<String> = []
        /// The entries of names that ports of this runtime have, by the name's folder.
        var names: [String: NameEntry] = [:]
        /// The folders of names whose entries may have been removed.
        var suspects: Set<String> = []
        /// Suspects that could not be restored, until all have been checked.
        var unrestored: Set<String> = []
        /// Whether a check of the suspects is scheduled.
        var willRestore = false

        mutating func nextSuspect() -> String? { suspects.first.flatMap { suspects.remove($0) } }
    }

    let own = Lock(Own())
    /// Held while a name of this runtime changes.
    let changing = Lock(())
    /// Listens for the removal of this runtime's entries, as long as it has any.
    let removalListener = Lock<RegistryWatcher.Listener?>(nil)
    /// The time of the coarse clock before which ``isInPlace`` does not check again.
    private let nextLook = Atomic<UInt64>(0)

    static let names = "names"

    /// The longest path of a directory. The paths of sockets add an incarnation, 13 digits, and two slashes.
    static let longestPath = Wire.longestSocketPath - 47

    /// - Parameter makes: Whether to make the directory, and what has to be there.
    init(_ path: String, _ registry: Registry, makes: Bool = true) throws(PortError) {
        let path = DefaultDirectory.withoutTrailingSlashes(path)
        guard path.hasPrefix("/") else {
            throw .untrustedDirectory(path, reason: "its path has to begin with /; set PORTS_DIRECTORY to such a path")
        }
        guard path.utf8.count <= Self.longestPath else { throw .pathTooLong(path, limit: Self.longestPath) }
        if makes, !Folder.make(path) { throw .directory(path, call: "mkdir", errno: errno) }
        guard let folder = Folder(path) else {
            let error = errno
            guard error == ENOTDIR || error == ELOOP else { throw .directory(path, call: "open", errno: error) }
            throw .untrustedDirectory(path, reason: "it is no directory, or a link to one; name the directory itself")
        }
        self.folder = folder
        currentPath = Lock(path)
        self.registry = registry
        watcher = RegistryWatcher(registry.housekeeping)
        try check()
        guard makes else { return }
        // Cleaners of temporary directories leave a locked directory alone. Nobody waits for this lock.
        flock(folder.descriptor, LOCK_SH | LOCK_NB)
        // Without the permission to write, lookups still work where there are names.
        guard folder.makeFolder(Self.names) || errno == ENOENT else { throw failure("mkdir", Self.names) }
    }

    /// Throws unless the directory belongs to this user and is closed to all others. Somebody who can write to it can
    /// pose as any port's owner.
    func check() throws(PortError) {
        let status = folder.status
        guard status.st_uid == geteuid() else {
            throw .untrustedDirectory(
                path, reason: "it belongs to user \(status.st_uid), not to \(geteuid()); name another")
        }
        guard status.st_mode & 0o077 == 0 else {
            throw .untrustedDirectory(
                path, reason: "others may use it; name another, or chmod 700 it if it is for ports alone")
        }
    }

    // MARK: The path

    /// The path that the runtime has found the directory by.
    var path: String { currentPath.withLock { $0 } }
    func path(_ file: String) -> String { "\(path)/\(file)" }

    /// A path for calls that take no descriptor. A hidden directory has such a path only with `/proc`.
    func reachablePath(_ file: String) -> String {
        !folder.isAt(path) && isCurrent(at: path) ? folder.path(file) : path(file)
    }

    /// Whether the path still leads to this directory. A directory that is hidden from this process counts, because
    /// others find names and ports there.
    func isCurrent(at path: String) -> Bool {
        folder.isAt(path) || !folder.isRemoved && folder.isHidden(at: DefaultDirectory.withoutTrailingSlashes(path))
    }

    /// The error of a call on a file that has just failed.
    func failure(_ call: String, _ file: String) -> PortError {
        let error = errno
        return .directory(path(file), call: call, errno: error)
    }

    /// Notes that another path leads here. It becomes the directory's path if the former one leads elsewhere.
    func isReached(by other: String) {
        let former = path
        guard other != former, !isCurrent(at: former) else { return }
        let isChanged = currentPath.withLock { exchange(&$0, with: other) } == former
        if isChanged { renewNames() }
    }

    /// Whether others find this runtime by the directory's path. Checks at most ten times a second.
    var isInPlace: Bool {
        let (now, next) = (crl_coarse_now(), nextLook.load(ordering: .relaxed))
        guard now >= next else { return true }
        nextLook.store(now + 100_000_000, ordering: .relaxed)
        return isInPlaceNow
    }

    /// The same, with a check at each call.
    var isInPlaceNow: Bool { isCurrent(at: path) && folder.isSocket(ownFile("c")) }

    // MARK: This runtime's files

    private var ownFolder: String { "\(registry.incarnation)" }
    func ownFile(_ file: String) -> String { "\(ownFolder)/\(file)" }

    /// Makes this runtime reachable: makes its folder and its control socket, also when somebody has removed them.
    func open() throws(PortError) {
        if own.withLock({ isOpen($0) }) { return }
        // The next process sweeps the rest.
        sweep(before: .now + .milliseconds(100))
        let former = try own.withLock { (own) throws(PortError) -> ControlListener? in
            if own.isEnded { throw .isEnding }
            guard !isOpen(own) else { return nil }
            let made = try makeListener()
            own.sockets.insert("c")
            return exchange(&own.listener, with: made)
        }
        if former != nil { renewNames() }
    }

    private func isOpen(_ own: Own) -> Bool { own.listener != nil && folder.isSocket(ownFile("c")) }

    /// Whether ports of this runtime have names or sockets here.
    var hasPorts: Bool { own.withLock { !$0.names.isEmpty || $0.sockets.contains { $0 != "c" } } }

    func closeListener() { own.withLock { $0.listener.take() }?.close() }

    private func makeListener(attempts: Int = 100) throws(PortError) -> ControlListener {
        do throws(PortError) {
            return try ControlListener(listenForPeers(), registry.control)
        } catch .directory(_, _, ENOENT) where attempts > 1 {
            // A sweep has taken this process for a dead one.
            return try makeListener(attempts: attempts - 1)
        } catch {
            for file in ["b", "c"] { _ = folder.remove(ownFile(file)) }
            _ = folder.removeFolder(ownFolder)
            throw error
        }
    }

    /// Listens at a control socket, which gets its final name when it listens. So a control socket that does not listen
    /// belongs to a dead process.
    ///
    /// A sweep of another process may run before the rename. It finds no control socket, takes this process for a dead
    /// one, and removes its folder. Then the rename fails with `ENOENT`, and the caller tries again.
    private func listenForPeers() throws(PortError) -> ControlSocket {
        let (born, control) = (ownFile("b"), ownFile("c"))
        guard folder.makeFolder(ownFolder) else { throw failure("mkdir", ownFolder) }
        _ = folder.remove(born)
        let socket = ControlSocket(try LocalSocket.listenForControl(at: reachablePath(born)))
        if folder.rename(born, to: control) { return socket }
        let error = errno
        if error == ENOENT { removeStray(born) }
        throw .directory(path(control), call: "rename", errno: error)
    }

    /// Removes a socket that was bound in another directory, because the path leads there meanwhile.
    private func removeStray(_ file: String) { if !folder.isAt(path) { unlink(path(file)) } }

    func makeSocket(for port: PortID) throws(PortError) -> Int32 {
        let file = ownFile("\(port.number)")
        let descriptor = try LocalSocket.listen(at: reachablePath(file), kind: .stream)
        guard folder.isSocket(file) else {
            close(descriptor)
            removeStray(file)
            throw .directory(path(file), call: "bind", errno: ENOENT)
        }
        own.withLock { _ = $0.sockets.insert("\(port.number)") }
        return descriptor
    }

    func pathOfSocket(of port: PortID) -> String { path(ownFile("\(port.number)")) }
    func hasSocket(of port: PortID) -> Bool { folder.isSocket(ownFile("\(port.number)")) }

    func removeSocket(of port: PortID) {
        for file in [String(port.number), Self.hiddenSocket(of: port)] {
            if own.withLock({ $0.sockets.remove(file) }) != nil { _ = folder.remove(ownFile(file)) }
        }
    }

    /// Lets nobody find the socket, until it is shown.
    func hideSocket(of port: PortID) { moveSocket(String(port.number), to: Self.hiddenSocket(of: port)) }
    func showSocket(of port: PortID) { moveSocket(Self.hiddenSocket(of: port), to: String(port.number)) }

    static func hiddenSocket(of port: PortID) -> String { "\(port.number)~" }

    private func moveSocket(_ file: String, to other: String) {
        own.withLock { own in
            guard own.sockets.remove(file) != nil else { return }
            if folder.rename(ownFile(file), to: ownFile(other)) {
                own.sockets.insert(other)
            } else {
                _ = folder.remove(ownFile(file))
            }
        }
    }

    func removeOwnFiles(before deadline: MonotonicInstant) {
        // From now on, removed entries are not restored.
        let former = own.withLock { exchange(&$0, with: Own(isEnded: true)) }
        guard let listener = former.listener else { return }
        // The next home of a port, or its lender, takes the names with the port, and then removes the entries here.
        for (file, entry) in former.names where !outlivesThisProcess(entry) { try? giveUp(entry.right.id, file) }
        listener.close()
        for socket in former.sockets { _ = folder.remove(ownFile(socket)) }
        _ = folder.removeFolder(ownFolder)
        // Perhaps no other process sweeps the files of this process's killed children.
        sweep(before: deadline)
    }

    // MARK: Other processes

    /// Whether somebody listens at the process's control socket, which the kernel closes with the process.
    func isAlive(_ owner: Incarnation) -> Bool { owner == registry.incarnation || hasListener("\(owner)/c") }

    /// Whether a process listens, or may listen, at a socket in this directory, also when the directory's path leads
    /// elsewhere.
    func hasListener(_ file: String, kind: LocalSocket.Kind = .sequencedPackets) -> Bool {
        switch LocalSocket.listening(at: path(file), kind: kind) {
        case .somebody: true
        case .nobody: false
        case .noSocket: folder.isSocket(file) && LocalSocket.listening(at: folder.path(file), kind: kind) != .nobody
        }
    }
}
