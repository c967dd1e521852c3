import RunLoops

/// Gives ports names by which the processes of one user find them. The corresponding class is
/// NSMessagePortNameServer.
///
/// Names live in a registry directory: the one that `$PORTS_DIRECTORY` says, else `$XDG_RUNTIME_DIR/ports`, else
/// `/tmp/ports-UID`. It must be the user's own and closed to others. A name has 1 to 255 bytes, of any characters but
/// NUL; it belongs to a live owner alone, and is free as soon as the owner's process is gone.
public final class PortNameServer: Sendable {
    /// The registry directory.
    public let path: String

    /// The name server of the default registry directory.
    public static let shared = PortNameServer(directory: PortDirectory.defaultPath)

    /// A name server of its own directory, apart from all others. The directory is made when it is first needed.
    ///
    /// - Parameter path: An absolute path. Its parent must exist. Sockets are made in it, whose paths must be short.
    public init(directory path: String) { self.path = PortDirectory.withoutTrailingSlashes(path) }

    /// Gives a name to a port of this process. The corresponding method is NSPortNameServer's `registerPort:name:`.
    ///
    /// - Throws: ``PortError``: `nameInUse` with its owner's process id, `badName`, `isInvalid`, or what is wrong with
    ///   the directory.
    public func register(_ port: MachPort, name: String) throws(PortError) {
        let directory = try PortProcess.current.directory(path)
        _ = try NameEntry.fileName(for: name)
        try directory.open()
        let exposed = try port.expose()
        try directory.register(
            name,
            port.wireRight(path: exposed))
        port.tookName(name, in: directory)
    }

    /// Takes a name back from a port of this process; nothing happens when it is not the port's.
    /// The corresponding method is NSPortNameServer's `removePortForName:`.
    public func remove(_ name: String, of port: MachPort) throws(PortError) {
        let directory = try PortProcess.current.directory(path)
        try directory.unregister(name, from: port.id)
        port.gaveUpName(name, in: directory)
    }

    /// Finds the port of a name, and makes sure that its owner is alive and is the one who registered it.
    /// The corresponding method is NSPortNameServer's `portForName:`.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - deadline: How long the owner may take to answer.
    /// - Throws: ``PortError``: `nameNotFound` at once when nobody has the name; `cannotConnect`,
    ///   `incompatibleVersion`, or what is wrong with the directory.
    public func port(
        forName name: String, before deadline: MonotonicInstant = .now + .seconds(5)
    ) throws(PortError) -> MachPort.SendRight {
        let process = PortProcess.current
        let directory = try process.directory(path)
        guard let entry = try directory.entry(name) else { throw .nameNotFound(name, directory: path) }
        let right = MachPort.SendRight(process.channel(to: entry.right, replacesInvalid: true))
        do throws(PortError) {
            let peer = try right.channel.joinPeer(before: deadline)
            guard peer.map({ PIDNamespace.isProcess($0.pid, knownToItselfAs: entry.pid) }) ?? true else {
                throw .cannotConnect(port: "“\(name)”", reason: "its socket is not that of process \(entry.pid)")
            }
        } catch .isInvalid {
            try directory.removeDead(entry)
            throw .nameNotFound(name, directory: path)
        }
        guard right.isValid else { throw .nameNotFound(name, directory: path) }
        return right
    }

    /// The names that there are at the moment, in no order; those of owners who died unnoticed too.
    public func names() throws(PortError) -> [String] {
        try PortProcess.current.directory(path).entries().map(\.name)
    }

    /// What the registry says about the names of owners who are alive, in no order.
    public func registrations() throws(PortError) -> [Registration] {
        let directory = try PortProcess.current.directory(path)
        return directory.entries().filter { directory.isAlive($0.right.id.incarnation) }.map(Registration.init)
    }

    /// What the registry says about a name; nil when nobody has it.
    public func registration(forName name: String) throws(PortError) -> Registration? {
        let directory = try PortProcess.current.directory(path)
        guard let entry = try directory.entry(name), directory.isAlive(entry.right.id.incarnation) else { return nil }
        return Registration(entry)
    }

    /// Removes what killed processes have left in the directory. The next process that makes a port there does it as
    /// well, so that there is no need to.
    ///
    /// - Returns: How many processes' files were removed, and which names.
    @discardableResult
    public func sweep() throws(PortError) -> (processes: Int, names: [String]) {
        let directory = try PortProcess.current.directory(path)
        return try directory.withLock { directory.sweep() }
    }
}
