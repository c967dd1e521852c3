import RunLoops

/// A port as the registry needs it.
protocol RegisteredPort: AnyObject, Sendable {
    var id: PortID { get }
    /// Makes the port one that other processes can connect to.
    ///
    /// - Returns: The right to it for other processes.
    func exposedRight() throws(PortError) -> WireRight
    /// The port has the name, and gives it up with its end.
    func tookName(_ name: String, in directory: RegistryDirectory)
}

/// The registry directories that a runtime uses.
final class Registry: Sendable {
    let control: ControlConnections
    /// Finds a port of this runtime by its number.
    let findPort: @Sendable (UInt64) -> (any RegisteredPort)?
    private let directories = Lock<[String: RegistryDirectory]>([:])

    init(_ control: ControlConnections, findPort: @escaping @Sendable (UInt64) -> (any RegisteredPort)?) {
        self.control = control
        self.findPort = findPort
    }

    var incarnation: Incarnation { control.incarnation }
    var housekeeping: Housekeeping { control.housekeeping }

    /// The directory that the path leads to at the moment.
    func directory(_ path: String) throws(PortError) -> RegistryDirectory {
        try Fork.check()
        let known = directories.withLock { $0[path] }
        if let known, known.folder.isAt(path) {
            try known.check()
            return known
        }
        let opened = try RegistryDirectory(path, self)
        let directory = directories.withLock { directories in
            // One directory may have several paths.
            let same = directories.values.first { $0.folder.identity == opened.folder.identity } ?? opened
            directories[path] = same
            return same
        }
        // The known directory was removed, and somebody has made it again.
        if let known, known !== directory { known.moveNames(to: directory) }
        return directory
    }

    /// A port is invalid: those who wait for the end of its name look again.
    func notePortInvalidated() {
        for directory in all { directory.watcher.tell(.portInvalidated) }
    }

    /// Removes this runtime's files and listeners.
    func close(before deadline: MonotonicInstant) {
        for directory in all { directory.removeOwnFiles(before: deadline) }
    }

    private var all: [RegistryDirectory] { directories.withLock { Array($0.values) } }
}
