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
    func took(_ entry: NameEntry, in directory: RegistryDirectory)
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

    private struct Directories {
        var byPath: [String: RegistryDirectory] = [:]
        /// One for each directory. A directory that no path leads to stays, because it may be moved back.
        var all: [RegistryDirectory] = []
    }

    private let directories = Lock(Directories())

    init(_ control: ControlConnectionTable, findPort: @escaping @Sendable (UInt64) -> (any RegisteredPort)?) {
        self.control = control
        self.findPort = findPort
    }

    var incarnation: Incarnation { control.incarnation }
    var housekeeping: Housekeeping { control.housekeeping }

    /// The directory that the path leads to now.
    /// - Throws: ``PortError``, also when the directory cannot be trusted.
    func directory(_ path: String) throws(PortError) -> RegistryDirectory {
        try Fork.check()
        let known = directories.withLock { $0.byPath[path] }
        if let known, known.isCurrent(at: path) {
            try known.check()
            known.isReached(by: path)
            return known
        }
        let opened = try RegistryDirectory(path, self)
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
        if let known, known !== directory { known.move(to: directory) }
        return directory
    }

    /// Whether a process may be alive though the path of its address leads to no socket. Only the process's own
    /// directory can show that the process is dead. That directory is open here, or the path leads to it now.
    func mayBeAlive(_ address: ControlAddress) -> Bool {
        let all = all
        if all.contains(where: { $0.isAlive(address.incarnation) }) { return true }
        if all.contains(where: { $0.path == address.directory }) { return false }
        guard let folder = Folder(address.directory), folder.status.st_uid == geteuid() else { return true }
        return folder.isSocket("\(address.incarnation)/c")
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
