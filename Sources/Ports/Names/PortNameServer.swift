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

    /// Whether both are of one directory, however its path is spelled.
    func isSame(as other: PortNameServer) -> Bool {
        if path == other.path { return true }
        let process = PortProcess.current
        guard let directory = try? process.directory(path) else { return false }
        return (try? process.directory(other.path)) === directory
    }

    /// Gives a name to a port of this process. The corresponding method is NSPortNameServer's `registerPort:name:`.
    ///
    /// - Throws: ``PortError``: `nameInUse` with its owner's process id, `badName`, `isInvalid`, or what is wrong with
    ///   the directory.
    public func register(_ port: MachPort, name: String) throws(PortError) {
        try PortProcess.current.directory(path).give(name, to: port)
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
    @available(*, noasync, message: "it blocks its thread; `try await` the other one")
    public func port(
        forName name: String, before deadline: MonotonicInstant = .now + .seconds(5)
    ) throws(PortError) -> MachPort.SendRight {
        let found = try find(name)
        do throws(PortError) {
            let peer = try found.right.channel.joinPeer(before: deadline)
            if let sign = found.sign(peer) { try found.check(sign.hasCome.wait(until: deadline)) }
            return try found.checked(peer)
        } catch .isInvalid {
            throw found.isGone()
        }
    }

    /// Finds the port of a name, suspending the task until its owner has answered. No thread waits.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - deadline: How long the owner may take to answer.
    /// - Throws: ``PortError``, as the form that blocks; `CancellationError` when the task is cancelled.
    public nonisolated(nonsending) func port(
        forName name: String, before deadline: MonotonicInstant = .now + .seconds(5)
    ) async throws -> MachPort.SendRight {
        let found = try find(name)
        do {
            let peer = try await found.right.channel.joinPeer(before: deadline)
            if let sign = found.sign(peer) { try found.check(try await sign.hasCome.value(before: deadline)) }
            return try found.checked(peer)
        } catch PortError.isInvalid {
            throw found.isGone()
        }
    }

    private func find(_ name: String) throws(PortError) -> FoundName {
        let directory = try PortProcess.current.directory(path)
        guard let entry = try directory.entry(name) else { throw .nameNotFound(name, directory: path) }
        return FoundName(entry: entry, directory: directory)
    }

    /// The names that there are at the moment, in no order; those of owners who died unnoticed too.
    public func names() throws(PortError) -> [String] {
        try PortProcess.current.directory(path).entries().map(\.name)
    }

    /// What the registry says about the names of owners who are alive, in no order.
    public func registrations() throws(PortError) -> [Registration] {
        let directory = try PortProcess.current.directory(path)
        return directory.liveEntries().map(Registration.init)
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
        try PortProcess.current.directory(path).sweepAll()
    }
}

/// A name's entry, whose owner is still to be asked.
private struct FoundName {
    let entry: NameEntry
    let directory: PortDirectory
    let right: MachPort.SendRight
    /// Whether news of the port's end would have come already.
    private let isKnown: Bool

    init(entry: NameEntry, directory: PortDirectory) {
        self.entry = entry
        self.directory = directory
        right = MachPort.SendRight(PortProcess.current.channel(to: entry.right, replacesInvalid: true))
        isKnown = right.channel.isWatched && PortProcess.current.peers.isConnected(to: entry.right.id.incarnation)
    }

    /// Before it comes, the owner tells that the port is gone, if it is. Nil when there is nothing to ask.
    func sign(_ peer: Peer?) -> SignOfLife? { isKnown || peer == nil ? nil : SignOfLife(of: right.channel) }

    func check(_ sign: Bool?) throws(PortError) {
        if sign == nil { throw .cannotConnect(port: "“\(entry.name)”", reason: "its owner does not answer in time") }
    }

    func checked(_ peer: Peer?) throws(PortError) -> MachPort.SendRight {
        guard right.isValid else { throw .isInvalid(port: right.description) }
        guard peer.map({ PIDNamespace.isProcess($0.pid, knownToItselfAs: entry.pid) }) ?? true else {
            throw .cannotConnect(port: "“\(entry.name)”", reason: "its socket is not that of process \(entry.pid)")
        }
        return right
    }

    /// The port of the entry is gone.
    func isGone() -> PortError {
        directory.removeDead(entry)
        return .nameNotFound(entry.name, directory: directory.path)
    }
}
