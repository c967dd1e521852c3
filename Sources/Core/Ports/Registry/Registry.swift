import Glibc
import RunLoopLocks
import RunLoops

/// A port of this runtime, as the registry uses it.
protocol RegisteredPort: AnyObject, Sendable {
    /// The port at this home.
    var id: PortID { get }
    /// The identity of the port.
    var publicID: PortID { get }
    /// Lets other processes connect to the port, and returns the right to this home.
    func exposedRight() throws(PortError) -> WireRight
    /// Called when the port has got a name. The port gives the name up at its end.
    /// - Parameter hasCome: Whether the name has come with the port from another process, to which it may go back.
    /// - Returns: False when the port is being handed over, and the name would stay behind.
    func took(_ entry: NameEntry, in directory: RegistryDirectory, hasCome: Bool) -> Bool
    /// Called when the port has given a name up.
    func gaveUpName(_ name: String, in directory: RegistryDirectory)
    /// Called on the housekeeping thread when somebody has connected to the port's socket, the first to do so.
    func useListener()
}

extension PortError {
    /// Whether a directory may let a name be taken later.
    fileprivate var mayPass: Bool {
        switch self {
        case .directory, .unavailable, .outOfDescriptors, .transport: true
        default: false
        }
    }
}

extension NameEntry {
    /// The entry of a name of the port, to which other processes can connect then.
    init(_ name: String, of port: any RegisteredPort, isService: Bool) throws(PortError) {
        self.init(name: name, right: try port.exposedRight(), of: port.publicID, isService: isService)
    }
}

/// The registry directories that a runtime uses.
final class Registry: Sendable {
    let control: ControlConnectionTable
    let findPort: @Sendable (UInt64) -> (any RegisteredPort)?
    let listeners: UnusedListeners

    private struct Directories {
        var byPath: [String: RegistryDirectory] = [:]
        /// One for each directory. A directory that no path leads to stays, because it may be moved back.
        var all: [RegistryDirectory] = []
    }

    /// A name that a port of this runtime has come with, and does not have yet.
    struct AwaitedName: Hashable {
        let port: PortID
        let name: String
        /// The path of the directory.
        let path: String
        let isService: Bool
    }

    private let directories = Lock(Directories())
    private let awaited = Lock(Set<AwaitedName>())

    init(_ control: ControlConnectionTable, findPort: @escaping @Sendable (UInt64) -> (any RegisteredPort)?) {
        self.control = control
        self.findPort = findPort
        listeners = UnusedListeners(control.housekeeping) { findPort($0)?.useListener() }
    }

    var incarnation: Incarnation { control.incarnation }
    var housekeeping: Housekeeping { control.housekeeping }

    /// The directory that the path leads to now.
    /// - Throws: ``PortError``, also when the directory cannot be trusted.
    func directory(_ path: String, attempts: Int = 100) throws(PortError) -> RegistryDirectory {
        try Fork.check()
        let known = directories.withLock { $0.byPath[path] }
        if let known, known.isCurrent(at: path) {
            try known.check()
            known.isReached(by: path)
            return known
        }
        let opened = try RegistryDirectory(path, self)
        // Another may be there by now, also the known one again.
        if !opened.isCurrent(at: path), attempts > 1 { return try self.directory(path, attempts: attempts - 1) }
        let (directory, removed) = directories.withLock { directories in
            // Read once, because a directory that is removed between two reads would keep its listener.
            let removed = directories.all.filter(\.folder.isRemoved)
            directories.all.removeAll { former in removed.contains { $0 === former } }
            // A removed directory stays while this runtime has ports there. They move to the new directory when the
            // path is used again.
            directories.byPath = directories.byPath.filter { !$0.value.folder.isRemoved || $0.value.hasPorts }
            // One directory may have several paths.
            let same = directories.all.first { $0.folder.identity == opened.folder.identity }
            directories.byPath[path] = same ?? opened
            if same == nil { directories.all.append(opened) }
            return (same ?? opened, removed)
        }
        for former in removed { former.closeListener() }
        directory.isReached(by: path)
        // The known directory was removed or moved, and somebody has made it again.
        if let known, known !== directory, !known.move(to: directory), attempts > 1 {
            // The names of the known one go to the next one.
            directories.withLock { $0.byPath[path] = known }
            return try self.directory(path, attempts: attempts - 1)
        }
        return directory
    }

    /// The directory at a path, only to look there; nil when there is none that can be trusted.
    /// - Throws: ``PortError`` when no descriptor is left.
    func existingDirectory(_ path: String) throws(PortError) -> RegistryDirectory? {
        let known = directories.withLock { $0.byPath[path] ?? $0.all.first { $0.path == path } }
        if let known, known.isCurrent(at: path) { return known }
        do throws(PortError) { return try RegistryDirectory(path, self, makes: false) } catch {
            if error.isShortage { throw error }
            return nil
        }
    }

    /// Does something in the directory that a path leads to, and again when another has taken its place meanwhile.
    /// - Parameter body: Returns false when the directory is at its path no more.
    /// - Throws: ``PortError``, also when others replace the directory again and again.
    func inDirectory(
        _ path: String, _ body: (RegistryDirectory) throws(PortError) -> Bool
    ) throws(PortError) {
        for _ in 0..<100 { if try body(directory(path)) { return } }
        throw .directory(path, call: "open", errno: ESTALE)
    }

    /// Gives a name to a port of this runtime that has come with the name, now or as soon as the directory lets it.
    /// - Parameters:
    ///   - took: Called when the port has the name.
    ///   - isLost: Called when another port has the name by now, or the directory has refused it for a minute.
    func take(
        _ name: String, isService: Bool, at path: String, with port: any RegisteredPort,
        took: @escaping @Sendable () -> Void = {}, isLost: @escaping @Sendable (PortError) -> Void
    ) {
        let name = AwaitedName(port: port.id, name: name, path: path, isService: isService)
        expect([name])
        take(name, with: port, took: took, isLost: isLost)
    }

    /// Notes that ports of this runtime are about to get names, which ``take(_:with:took:isLost:)`` gives them.
    func expect(_ names: [AwaitedName]) { awaited.withLock { $0.formUnion(names) } }

    /// Gives an expected name to its port. Without an effect when the port was to give the name up meanwhile.
    func take(
        _ name: AwaitedName, with port: any RegisteredPort,
        took: @escaping @Sendable () -> Void = {}, isLost: @escaping @Sendable (PortError) -> Void
    ) {
        take(name, with: port, attempts: 60, took, isLost)
    }

    private func take(
        _ name: AwaitedName, with port: any RegisteredPort, attempts: Int,
        _ took: @escaping @Sendable () -> Void, _ isLost: @escaping @Sendable (PortError) -> Void
    ) {
        guard isAwaited(name) else { return }
        do throws(PortError) {
            try inDirectory(name.path) { (directory) throws(PortError) in
                try directory.take(name.name, with: port, isService: name.isService) { isAwaited(name) }
            }
            if noLongerAwaits(name) { took() }
        } catch {
            guard attempts > 1, error.mayPass, findPort(name.port.number) != nil else {
                if noLongerAwaits(name) { isLost(error) }
                return
            }
            housekeeping.perform(after: .seconds(1)) { [weak self] in
                self?.take(name, with: port, attempts: attempts - 1, took, isLost)
            }
        }
    }

    private func isAwaited(_ name: AwaitedName) -> Bool { awaited.withLock { $0.contains(name) } }
    private func noLongerAwaits(_ name: AwaitedName) -> Bool { awaited.withLock { $0.remove(name) != nil } }

    /// The names that a port has come with, and does not have yet.
    func awaitedNames(of port: PortID) -> [AwaitedName] { awaited.withLock { $0.filter { $0.port == port } } }

    /// A port has moved on. Its next owner knows the names that it has not got.
    func giveUpAwaiting(namesOf port: PortID) { awaited.withLock { $0 = $0.filter { $0.port != port } } }

    /// A port is not to get a name any more.
    /// - Returns: Whether the port was about to get it.
    func giveUpAwaiting(_ name: String, in directory: RegistryDirectory, for port: PortID) -> Bool {
        let paths = directories.withLock { $0.byPath.filter { $0.value === directory } }.keys
        return awaited.withLock { awaited in
            let others = awaited.filter {
                $0.port != port || $0.name != name || $0.path != directory.path && !paths.contains($0.path)
            }
            return exchange(&awaited, with: others).count > others.count
        }
    }

    /// Whether a process may be alive though the path of its address leads to no socket. Only the process's own
    /// directory can show that the process is dead. That directory is open here, or the path leads to it now.
    func mayBeAlive(_ address: ControlAddress, _ former: FormerPeer?) -> Bool {
        let all = all
        if all.contains(where: { $0.isAlive(address.incarnation) }) { return true }
        // It has left the directory in which it listened, or was swept there.
        if former?.hasPlace?() == true { return false }
        if former?.process.state == .running { return true }
        if all.contains(where: { $0.path == address.directory && !$0.folder.isRemoved }) { return false }
        guard let folder = Folder(address.directory), folder.status.st_uid == geteuid() else { return true }
        return folder.isSocket("\(address.incarnation)/c")
    }

    /// Says whether the directory in which a process listens now is still there; nil when none is known here.
    func place(of owner: Incarnation) -> (@Sendable () -> Bool)? {
        guard let directory = all.first(where: { $0.folder.isSocket("\(owner)/c") }) else { return nil }
        return { [weak directory] in directory.map { !$0.folder.isRemoved } ?? false }
    }

    /// The names that a port has at a home, in all directories that this runtime uses.
    func entries(of port: PortID, at home: PortID) -> [(directory: RegistryDirectory, entry: NameEntry)] {
        all.flatMap { directory in directory.entries(of: port, at: home).map { (directory, $0) } }
    }

    /// Tells the watches of names that a port has become invalid, because the port may have had a name.
    func notePortInvalidated() { for directory in all { directory.watcher.tell(.portInvalidated) } }

    func close(before deadline: MonotonicInstant) {
        for directory in all { directory.removeOwnFiles(before: deadline) }
    }

    /// Releases the directories, which retain the registry. Called when nobody uses the runtime any more.
    func releaseDirectories() { _ = directories.withLock { exchange(&$0, with: Directories()) } }

    private var all: [RegistryDirectory] { directories.withLock { $0.all } }
}
